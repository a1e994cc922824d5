/** The response of a call, typed. */
import { milliseconds } from './duration.js';
import { encode, stringify } from './json.js';
import { kindOf } from './kinds.js';
/**
 * A child that is kept when its parent is deleted, like data. It gets no ownerReference. A later parent of the same plugin, kind,
 * namespace and name adopts it.
 */
export function retain(child) {
    return annotated(child, 'windlass.dev/retain');
}
/**
 * A child of which the host forces ownership of the fields that another field manager owns, as an autoscaler owns `spec.replicas`,
 * once. Otherwise such a field is a conflict.
 */
export function forceOwnership(child) {
    return annotated(child, 'windlass.dev/take-over');
}
/** The host reads options of a child from annotations, and removes these. */
function annotated(child, annotation) {
    const annotations = { ...child.metadata?.annotations, [annotation]: 'true' };
    return { ...child, metadata: { ...child.metadata, annotations } };
}
/** The compiler does not find a misspelt field in what a function returns. */
const FIELDS = {
    children: true,
    status: true,
    conditions: true,
    requeue: true,
    events: true,
    requirements: true,
    finalized: true,
};
/** @internal */
export function toContract(response) {
    const unknown = Object.keys(response).find((field) => !Object.hasOwn(FIELDS, field));
    if (unknown !== undefined) {
        throw new TypeError(`a response has no field ${unknown}`);
    }
    return {
        children: (response.children ?? []).flatMap((child, index) => (child ? [childJson(child, index)] : [])),
        status: statusJson(response.status ?? undefined, response.conditions ?? []),
        requeue: response.requeue === undefined ? undefined : BigInt(milliseconds(response.requeue)),
        events: (response.events ?? []).map(({ type, reason, message }, index) => ({
            eventType: type === 'Warning' ? 'warning' : 'normal',
            reason: text(reason, `events[${index}].reason`),
            message: text(message, `events[${index}].message`),
        })),
        requirements: (response.requirements ?? []).map((one, index) => requirement(one, `requirements[${index}]`)),
        finalized: response.finalized === true,
        extensions: [],
    };
}
/** Checks a string of a plugin without static types: the bindings would trap. */
function text(value, what) {
    if (typeof value !== 'string') {
        throw new TypeError(`${what} is ${value} instead of a string`);
    }
    return value;
}
function childJson(child, index) {
    const missing = [
        ['apiVersion', child.apiVersion],
        ['kind', child.kind],
        ['metadata.name', child.metadata?.name],
    ].find(([, value]) => !value);
    if (missing !== undefined) {
        throw new TypeError(`children[${index}] has no ${missing[0]}`);
    }
    return attempt(`children[${index}] (${child.kind} ${child.metadata?.name})`, child);
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
    return attempt('the status', { ...status, ...(written.length > 0 ? { conditions: written } : {}) });
}
function attempt(what, value) {
    try {
        return encode(value);
    }
    catch (error) {
        throw new TypeError(`${what} is not JSON: ${error instanceof Error ? error.message : error}`);
    }
}
function requirement({ id, kind, namespace, name, labels }, path) {
    const [tag, val] = labels === undefined ? ['name', name] : ['labels', labels];
    return {
        id: text(id, `${path}.id`),
        kind: kindOf(kind, `${path}.kind`),
        namespace: namespace === undefined ? undefined : text(namespace, `${path}.namespace`),
        select: { tag, val: text(val, `${path}.${tag}`) },
    };
}
