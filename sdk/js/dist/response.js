/** The response of a call, typed. */
import { checkFields, json, optionalText, text } from './checks.js';
import { childToContract, refToContract } from './child.js';
import { milliseconds } from './duration.js';
import { stringify } from './json.js';
import { kindOf } from './kinds.js';
/**
 * A response of a plugin that waits for something, which the message names: all children and the status stay as they are, also in a
 * clean-up, and the host calls again after this time, at least one second. A plugin with requirements adds them:
 *
 * ```ts
 * return { ...wait('Secret shop-tls is missing', '30s'), requirements };
 * ```
 */
export function wait(message, after) {
    return { keep: 'all', waiting: message, requeue: after };
}
const FIELDS = {
    children: true,
    keep: true,
    status: true,
    conditions: true,
    waiting: true,
    requeue: true,
    requeueAt: true,
    events: true,
    requirements: true,
    finalized: true,
};
/** @internal */
export function toContract(response) {
    checkFields(response, FIELDS, 'a response');
    return {
        children: (response.children ?? []).flatMap((child, index) => (child ? [childToContract(child, `children[${index}]`)] : [])),
        keep: keep(response.keep ?? []),
        status: statusJson(response.status ?? undefined, response.conditions ?? []),
        waiting: optionalText(response.waiting, 'waiting'),
        requeue: response.requeue === undefined ? undefined : BigInt(milliseconds(response.requeue)),
        requeueAt: response.requeueAt === undefined ? undefined : sinceEpoch(response.requeueAt, 'requeueAt'),
        events: (response.events ?? []).map(({ type, reason, message }, index) => ({
            eventType: type === 'Warning' ? 'warning' : 'normal',
            reason: text(reason, `events[${index}].reason`),
            message: text(message, `events[${index}].message`),
        })),
        requirements: (response.requirements ?? []).map((one, index) => requirement(one, `requirements[${index}]`)),
        http: [],
        finalized: response.finalized === true,
        extensions: [],
    };
}
function keep(children) {
    if (children === 'all') {
        return { tag: 'all' };
    }
    const these = children.flatMap((child, index) => (child ? [refToContract(child, `keep[${index}]`)] : []));
    return these.length === 0 ? { tag: 'none' } : { tag: 'these', val: these };
}
function statusJson(status, conditions) {
    if (status === undefined && conditions.length === 0) {
        return undefined;
    }
    if (status !== undefined && (typeof status !== 'object' || Array.isArray(status))) {
        throw new TypeError(`the status is ${stringify(status)} instead of an object`);
    }
    const word = (status) => (typeof status === 'boolean' ? (status ? 'True' : 'False') : status);
    const written = conditions.map(({ type, status, reason, message }) => ({ type, status: word(status), reason, message }));
    return json({ ...status, ...(written.length > 0 ? { conditions: written } : {}) }, 'the status');
}
/** @internal */
export function sinceEpoch(time, name) {
    // A time of a test is not an instance of the Date that was there before.
    const value = time?.getTime?.();
    if (!Number.isSafeInteger(value)) {
        throw new TypeError(`${name} is ${time} instead of a time`);
    }
    return BigInt(Math.max(0, value));
}
function requirement(required, path) {
    const { id, kind, namespace, namespaces, metadataOnly = false } = required;
    return {
        id: text(id, `${path}.id`),
        kind: kindOf(kind, `${path}.kind`),
        namespaces: namespacesOf(namespaces ?? (namespace === undefined ? undefined : [namespace]), `${path}.namespaces`),
        select: select(required, path),
        metadataOnly,
    };
}
function namespacesOf(namespaces, path) {
    if (namespaces === undefined) {
        return { tag: 'of-parent' };
    }
    return namespaces === 'all' ? { tag: 'all' } : { tag: 'named', val: namespaces.map((name) => text(name, path)) };
}
function select({ name, labels, labelSelector }, path) {
    if (labelSelector !== undefined) {
        return { tag: 'label-selector', val: json(labelSelector, `${path}.labelSelector`) };
    }
    return labels === undefined
        ? { tag: 'name', val: text(name, `${path}.name`) }
        : { tag: 'labels', val: text(labels, `${path}.labels`) };
}
