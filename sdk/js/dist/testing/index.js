/**
 * Calls a plugin in a plain test, without WebAssembly and without a cluster. The call goes through the same bytes as in the host.
 *
 * ```ts
 * import assert from 'node:assert/strict';
 * import test from 'node:test';
 * import { call } from '@windlass/plugin/testing';
 * import echo from '../src/plugin.js';
 *
 * test('as many Pods as desired', () => {
 *   const { children } = call(echo, { parent: { metadata: { name: 'web' }, spec: { replicas: 2, image: 'nginx' } } });
 *   assert.deepEqual(children.map((pod) => pod.metadata.name), ['web-0', 'web-1']);
 * });
 * ```
 *
 * @module @windlass/plugin/testing
 */
import { Failure, failed, invalid } from '../failure.js';
import { decode, encode } from '../json.js';
import { missingField } from '../request.js';
import { ask } from './harness.js';
import { record } from './host.js';
import { parsed } from './response.js';
export { checkCrd, golden, goldenCases } from './golden.js';
export { Refused } from './harness.js';
/**
 * Calls the plugin and returns its response.
 *
 * @throws {Failure} the plugin's failure; the stack of an unexpected error is its `cause`. Or, without a call of the plugin, `invalid` with
 * the host's sentence, if the parent does not fit the schema of the CRD.
 * @throws {Refused} if the host refuses the response, the config or the plugin's description.
 * @throws {Error} if there is no `windlass` to ask (the environment variable `WINDLASS`, or in the PATH); if the status lacks a
 * field that its type requires, or has an unknown one or one of another type; and if the plugin measures something that it does not declare,
 * which the host would drop.
 */
export function call(plugin, options) {
    const { response, failure } = attempt(plugin, options);
    if (failure !== undefined) {
        throw failure;
    }
    return response;
}
/** Calls the plugin as {@link call}, and returns a failure instead of throwing it. */
export function attempt(plugin, options) {
    const now = new Date(options.at ?? '2026-01-01T00:00:00Z');
    if (Number.isNaN(now.getTime())) {
        throw new TypeError(`at: ${options.at} is not a time in RFC 3339`);
    }
    const descriptor = plugin.reconciler.describe();
    const asked = requestOf(plugin, options, now);
    const answer = ask(descriptor, asked);
    const request = completed(asked, answer);
    const { value, calls } = record(now, () => {
        try {
            return answer.invalid === undefined ? { response: plugin.reconciler.reconcile(request) } : { failure: invalidOf(answer.invalid) };
        }
        catch (error) {
            return { failure: failureOf(error) };
        }
    });
    if (value.failure !== undefined) {
        const stack = value.failure.type === 'failed' ? calls.logs.filter(({ level }) => level === 'error').at(-1) : undefined;
        value.failure.cause = stack?.message;
        return { failure: value.failure, calls };
    }
    ask(descriptor, request, value.response);
    const response = { ...parsed(value.response), ...calls };
    check(plugin, response);
    return { response };
}
const READINESS = Symbol('readiness');
/** The readiness of which the test says nothing: this object, and no equal one. */
const UNTOLD = { tag: 'unknown' };
/** A live object that is ready, or not, with what is missing or why it failed, whatever the host would tell of it. */
export function withReadiness(object, state, message = '') {
    return { ...object, [READINESS]: { tag: state, val: message } };
}
/**
 * Calls the plugin's admission with a write of a parent.
 *
 * @throws {Error} if the plugin has no function `review`.
 */
export function review(plugin, options) {
    const { admission } = plugin;
    if (admission === undefined) {
        throw new Error(`plugin ${plugin.definition.name} has no function review`);
    }
    const { object, oldObject, username = 'user', config } = options;
    const operation = options.operation ?? (object === undefined ? 'delete' : oldObject === undefined ? 'create' : 'update');
    const json = (value) => (value === undefined ? undefined : encode(value));
    const { namespace, name } = (object ?? oldObject)?.metadata ?? {};
    const request = {
        operation,
        kind: kindOfParents(plugin),
        namespace,
        namespaceLabels: [],
        name,
        object: json(object),
        oldObject: json(oldObject),
        dryRun: false,
        username,
        groups: [],
        config: json(config),
    };
    const { decision, warnings } = record(new Date('2026-01-01T00:00:00Z'), () => admission.review(request)).value;
    switch (decision.tag) {
        case 'allow':
            return { allow: true, warnings };
        case 'replace':
            return { replace: decode(decision.val), warnings };
        case 'deny':
            return { deny: failureOf({ tag: 'invalid', val: decision.val }).message, warnings };
    }
}
/** The plugin's CRD; undefined for a plugin on an existing kind. */
export function crd(plugin) {
    const { parent } = plugin.reconciler.describe();
    return parent.tag === 'custom' ? decode(parent.val.definition) : undefined;
}
function requestOf(plugin, options, now) {
    const { parent, children = [], leftOut = [], related = {}, config, closedNamespaces = [] } = options;
    const { finalize = false, cause = 'deleted', namespaceTerminating = false } = options;
    const descriptor = plugin.reconciler.describe();
    const optional = [...descriptor.children, ...descriptor.related].flatMap(({ kind, optional }) => (optional ? [kind] : []));
    const parentKind = kindOfParents(plugin);
    const metadata = { uid: 'uid', ...parent.metadata };
    return {
        phase: finalize ? { tag: 'finalize', val: { cause, namespaceTerminating } } : { tag: 'sync' },
        parentKind,
        parent: encode({ apiVersion: parentKind.apiVersion, kind: parentKind.name, ...parent, metadata }),
        children: children.map(observed).sort(byKey),
        leftOut: leftOut.map(({ size, ...child }) => ({ child, size: BigInt(size) })),
        related: Object.entries(related).map(([id, objects]) => ({ id, objects: objects.map(observed).sort(byKey) })),
        http: [],
        kinds: options.kinds ?? optional,
        now: descriptor.clock ? BigInt(now.getTime()) : undefined,
        config: config === undefined ? undefined : encode(config),
        capabilities: { features: [], closedNamespaces },
        extensions: [],
    };
}
/** The request as the host sends it: with the defaults of the parent, and with the readiness of all objects of which the test says nothing. */
function completed(request, { parent = request.parent, children, related }) {
    const tell = (objects, told = []) => objects.map((object, index) => (object.readiness === UNTOLD ? { ...object, readiness: readiness(told[index]) } : object));
    return {
        ...request,
        parent,
        children: tell(request.children, children),
        related: request.related.map(({ id, objects }) => ({ id, objects: tell(objects, related?.[id]) })),
    };
}
function readiness({ state, message = '' } = { state: 'unknown' }) {
    return { tag: state, val: message };
}
function kindOfParents(plugin) {
    const { existing, crd } = plugin.definition.parent;
    if (existing !== undefined) {
        return existing;
    }
    const { group, names, versions } = crd.spec;
    return { apiVersion: `${group}/${versions[0].name}`, name: names.kind };
}
function observed(object) {
    const { apiVersion = '', kind = '', metadata } = object;
    return {
        kind: { apiVersion, name: kind },
        namespace: metadata?.namespace,
        name: metadata?.name ?? '',
        object: encode(object),
        readiness: object[READINESS] ?? UNTOLD,
    };
}
/** The order in which the host sends objects. */
function byKey(first, second) {
    const key = ({ kind, namespace = '', name }) => Buffer.from([kind.apiVersion, kind.name, namespace, name].join('\0'));
    return Buffer.compare(key(first), key(second));
}
/** The failure for what the host finds invalid in a parent: it begins with the first field. */
function invalidOf(sentence) {
    const [, field = '', problem = sentence] = /^(.+?): (.*)$/s.exec(sentence) ?? [];
    return invalid(field, problem);
}
function failureOf(error) {
    const failure = error;
    return failure.tag === 'invalid' ? invalid(failure.val.field ?? '', failure.val.message) : failed(failure.val);
}
/** Throws if the API server or the host would drop a part of the response. */
function check(plugin, response) {
    const { status } = plugin.definition.parent;
    const { conditions: _, ...own } = response.status ?? {};
    if (status !== undefined && Object.keys(own).length > 0) {
        const missing = missingField(status, own);
        if (missing !== undefined) {
            throw new Error(`status.${missing}: is required`);
        }
        const unknown = dropped(own, status.read(own, 'status'), 'status');
        if (unknown !== undefined) {
            throw new Error(`${unknown}: the type of the status has no such field, and the API server drops it`);
        }
    }
    for (const { metric, labels } of response.measurements) {
        const declared = plugin.reconciler.describe().metrics.find(({ name }) => name === metric);
        const unknown = declared && Object.keys(labels).find((label) => !declared.labels.includes(label));
        if (declared === undefined || unknown !== undefined) {
            throw new Error(`metric ${metric}${unknown === undefined ? '' : `, label ${unknown}`}: the plugin does not declare it`);
        }
    }
}
/** The path of the first field that is missing in a copy without unknown fields. */
function dropped(all, known, path) {
    if (typeof all !== 'object' || all === null || typeof known !== 'object' || known === null) {
        return undefined;
    }
    for (const [name, value] of Object.entries(all)) {
        const field = Array.isArray(all) ? `${path}[${name}]` : `${path}.${name}`;
        const found = Object.hasOwn(known, name) ? dropped(value, known[name], field) : field;
        if (found !== undefined) {
            return found;
        }
    }
    return undefined;
}
