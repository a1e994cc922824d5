/** Admission of parents. The host does not serve this yet. */
import { decode, encode } from './json.js';
import { metadataOf, readConfig, readSpec } from './request.js';
/** One write of a parent, before it is stored. */
export class AdmissionRequest {
    /** The untyped request of the contract, which also has the namespace, the user's groups, and whether nothing is stored. */
    raw;
    /** The object after the write; undefined for a deletion. */
    object;
    /** The object before the write; undefined for a new one. */
    oldObject;
    #types;
    /** @internal */
    constructor(raw, types) {
        this.raw = raw;
        this.#types = types;
        this.object = objectOf(raw.object);
        this.oldObject = objectOf(raw.oldObject);
    }
    /** The operation. */
    get operation() {
        return this.raw.operation;
    }
    /** Whether the object is being deleted. Its finalizers must be removable then, so even an invalid object must be allowed. */
    get isBeingDeleted() {
        return this.operation === 'delete' || metadataOf(this.object ?? {}).deletionTimestamp !== undefined;
    }
    /** The name of the user who writes, as the API server authenticated it. */
    get username() {
        return this.raw.username;
    }
    /**
     * The spec after the write, with defaults. The API server checks it by the schema after the review: here a required field may be
     * `undefined`. One that cannot be converted denies the write, with a message that names the field.
     */
    get spec() {
        return readSpec(this.#types.spec, this.object ?? {});
    }
    /** The spec before the write, with defaults; undefined for a new object. */
    get oldSpec() {
        return this.oldObject && readSpec(this.#types.spec, this.oldObject);
    }
    /** The Plugin's `spec.config`; without one, `{}` is read. */
    get config() {
        return readConfig(this.#types.config, this.raw.config);
    }
}
function objectOf(json) {
    return json && decode(json);
}
/** Allows the write, with warnings for the user. */
export function allow(...warnings) {
    return { allow: true, warnings };
}
/** Allows the write, and stores this object instead, of which the spec, labels and annotations may differ. */
export function replace(object, ...warnings) {
    return { replace: object, warnings };
}
/** Denies the write, with a message for the user. To name a field, throw {@link invalid}. */
export function deny(message, ...warnings) {
    return { deny: message, warnings };
}
/**
 * Allows an object with the defaults of its spec. Fields that the object has stay as they are.
 *
 * @throws {Failure} `invalid`, naming the field, if the spec cannot be converted: thrown from a review, it denies the write.
 */
export function withDefaults(request) {
    if (request.object === undefined) {
        return allow();
    }
    const given = request.object['spec'] ?? {};
    const whole = fill(given, request.spec);
    return whole === given ? allow() : replace({ ...request.object, spec: whole });
}
/** Adds the fields that are missing. Returns the value itself if none is. */
function fill(given, whole) {
    if (!isObject(given) || !isObject(whole)) {
        return given;
    }
    const added = Object.entries(whole).flatMap(([name, value]) => {
        if ((Object.hasOwn(given, name) ? given[name] : undefined) == null) {
            return [[name, value]];
        }
        const filled = fill(given[name], value);
        return filled === given[name] ? [] : [[name, filled]];
    });
    return added.length === 0 ? given : Object.fromEntries([...Object.entries(given), ...added]);
}
function isObject(value) {
    return typeof value === 'object' && value !== null && !Array.isArray(value);
}
/** @internal */
export function verdictToContract(verdict) {
    return { decision: decisionOf(verdict), warnings: [...(verdict.warnings ?? [])] };
}
function decisionOf(verdict) {
    if ('allow' in verdict) {
        return { tag: 'allow' };
    }
    return 'deny' in verdict ? { tag: 'deny', val: { message: verdict.deny } } : { tag: 'replace', val: encode(verdict.replace) };
}
