/** Children, and how the host treats them. */
import { checkFields, json, optionalText, text } from './checks.js';
import { kindOf } from './kinds.js';
const FIELDS = { stage: true, retain: true, takeOver: true, once: true, ready: true, update: true, replaces: true };
/** JSON has no symbols, and copies of an object keep them. */
const OPTIONS = Symbol('options');
/**
 * A child with options, besides those that it has.
 *
 * ```ts
 * return { children: [childWith(claim, { retain: true }), childWith(deployment, { stage: 1 })] };
 * ```
 */
export function childWith(child, options) {
    checkFields(options, FIELDS, 'the options of a child');
    return { ...child, [OPTIONS]: { ...child[OPTIONS], ...options } };
}
/** @internal */
export function childToContract(child, path) {
    const { stage = 0, retain = false, takeOver = false, once, ready, update, replaces } = child[OPTIONS] ?? {};
    if (!Number.isInteger(stage) || stage < 0 || stage >= 2 ** 32) {
        throw new TypeError(`${path}: ${stage} is not a stage: a whole number, 0 or more`);
    }
    const named = [child.kind, child.metadata?.name].filter(Boolean).join(' ');
    return {
        object: json(child, named === '' ? path : `${path} (${named})`),
        stage,
        retain,
        takeOver,
        create: once === undefined ? { tag: 'always' } : { tag: 'once', val: text(once, `${path}: once`) },
        ready,
        update: update && updateToContract(update),
        replaces: replaces && refToContract(replaces, `${path}: replaces`),
    };
}
/** @internal */
export function updateToContract(update) {
    return typeof update === 'string'
        ? { tag: update }
        : { tag: 'rolling', val: { recreate: update.recreate ?? false, conditions: [...update.rolling] } };
}
/** @internal */
export function refToContract({ kind, namespace, name }, path) {
    return {
        kind: kindOf(kind, `${path}.kind`),
        namespace: optionalText(namespace, `${path}.namespace`),
        name: text(name, `${path}.name`),
    };
}
