/** The request of a call, typed. */
import { Failure, failed } from './failure.js';
import { randomText, secretValue } from './generated.js';
import { decode } from './json.js';
import { kinds } from './kinds.js';
/** @internal */
export function metadataOf(object) {
    return { name: '', uid: '', generation: 0, labels: {}, annotations: {}, ...object.metadata };
}
function conditionOf(object, type) {
    const conditions = object['status']?.conditions;
    return Array.isArray(conditions) ? conditions.find((condition) => condition?.type === type) : undefined;
}
/** A value that is computed at the first read. */
function lazy(compute) {
    let value;
    return () => (value ??= { of: compute() }).of;
}
/** A live object: a child or a related object. */
export class LiveObject {
    #observed;
    #object;
    /** @internal */
    constructor(observed) {
        this.#observed = observed;
    }
    /** The kind. */
    get kind() {
        return this.#observed.kind;
    }
    /** The name. */
    get name() {
        return this.#observed.name;
    }
    /** The namespace; undefined for a cluster-scoped object. */
    get namespace() {
        return this.#observed.namespace;
    }
    /** The object as the API server sent it. It is parsed at the first read. */
    get object() {
        return this.#parsed();
    }
    /** The metadata. */
    get metadata() {
        return metadataOf(this.#parsed());
    }
    /** Whether the object is ready, and what is missing. Unknown if only the metadata was required. */
    get readiness() {
        const { readiness } = this.#observed;
        return { state: readiness.tag, message: 'val' in readiness ? readiness.val : '' };
    }
    /** Whether the object is known to be ready. */
    get isReady() {
        return this.#observed.readiness.tag === 'ready';
    }
    /** Whether the object is being deleted (`metadata.deletionTimestamp`). */
    get isBeingDeleted() {
        return this.metadata.deletionTimestamp !== undefined;
    }
    /** The entry of `status.conditions` with this type; undefined if there is none. */
    condition(type) {
        return conditionOf(this.#parsed(), type);
    }
    /** Whether the condition of this type has status True. */
    isConditionTrue(type) {
        return this.condition(type)?.status === 'True';
    }
    #parsed() {
        return (this.#object ??= decode(this.#observed.object));
    }
}
/** Everything that a response may depend on. */
export class Request {
    /** The untyped request of the contract. */
    raw;
    #parent;
    #metadata;
    #spec;
    #status;
    #config;
    #children;
    /** @internal */
    constructor(raw, types) {
        this.raw = raw;
        this.#parent = lazy(() => decode(raw.parent));
        this.#metadata = lazy(() => metadataOf(this.parent));
        this.#spec = lazy(() => readSpec(types.spec, this.parent));
        this.#status = lazy(() => readStatus(types.status, this.parent['status']));
        this.#config = lazy(() => readConfig(types.config, raw.config));
        this.#children = lazy(() => raw.children.map((child) => new LiveObject(child)));
    }
    /** The parent's name. */
    get name() {
        return this.metadata.name;
    }
    /** The parent's namespace; undefined for a cluster-scoped parent. */
    get namespace() {
        return this.metadata.namespace;
    }
    /** The parent's uid. */
    get uid() {
        return this.metadata.uid;
    }
    /** The parent's metadata. */
    get metadata() {
        return this.#metadata();
    }
    /**
     * The parent's spec, with defaults. It fits the schema of the CRD: the host reports any other parent as invalid without a call.
     *
     * In a clean-up it may be any spec, so that a parent with an invalid one can be cleaned up and deleted: a required field may be
     * `undefined`, and a value out of its bounds. Reading fails only if JSON of another type than declared cannot be converted. The host does
     * not check parents of an {@link existing} kind either; if their spec cannot be read, the call fails before the plugin's function runs.
     */
    get spec() {
        return this.#spec();
    }
    /**
     * The parent's status as last written; undefined if there is none, or if it lacks a field that its type requires or has one of another
     * type: an older version may have written it, or the host alone.
     */
    get status() {
        return this.#status();
    }
    /** The whole parent, as the API server sent it, for kinds with fields outside `spec`. */
    get parent() {
        return this.#parent();
    }
    /**
     * The Plugin's `spec.config`, with defaults; without one, `{}` is read. The host refuses a config that does not fit the declared type. If
     * one cannot be converted, the call fails (`failed`): the parent's user cannot correct it.
     */
    get config() {
        return this.#config();
    }
    /**
     * The time at which the reconcile began.
     *
     * @throws {TypeError} if the plugin has no {@link Definition.clock}.
     */
    get now() {
        if (this.raw.now === undefined) {
            throw new TypeError('request.now needs `clock: true` in the definition of the plugin');
        }
        return new Date(Number(this.raw.now));
    }
    /**
     * Whether the plugin has to clean up ({@link Definition.finalizes}). The response then lists the children that must still exist, and
     * {@link Response.finalized} ends the parent.
     */
    get isFinalizing() {
        return this.#finalizing !== undefined;
    }
    /**
     * Why the plugin has to clean up: the parent is being deleted, or it or its namespace does not match the selector any more. Undefined
     * unless {@link isFinalizing}.
     */
    get cause() {
        return this.#finalizing?.cause;
    }
    /**
     * Whether the parent is being finalized in a namespace that is being deleted. No child can be created there, and the host removes
     * the finalizer after 30 seconds: a plugin that cleans up with a Job must do without it.
     */
    get isNamespaceTerminating() {
        return this.#finalizing?.namespaceTerminating ?? false;
    }
    get #finalizing() {
        const { phase } = this.raw;
        return phase.tag === 'finalize' ? phase.val : undefined;
    }
    /**
     * Whether the children of the last response for the current generation of the spec have been applied: the host writes this into
     * `status.observedGeneration` and the condition `Stalled`. Until then the live children belong to an older spec: however complete
     * they look, the parent is not ready. Always false for kinds whose status has no such fields, as built-in kinds.
     */
    get isSpecApplied() {
        const observed = this.parent['status']?.observedGeneration;
        const stalled = conditionOf(this.parent, 'Stalled');
        return (typeof observed === 'number' &&
            observed >= this.metadata.generation &&
            // A child that failed after it was applied stalls the parent too.
            (stalled?.status !== 'True' || stalled.reason === 'ChildFailed'));
    }
    /** All live children, ordered by apiVersion, kind, namespace and name; see {@link childrenOf}. */
    get children() {
        return this.#children();
    }
    /**
     * The live children of one kind, ordered by namespace and name. Children that are being deleted are among them; those that are
     * {@link leftOut} are not.
     */
    childrenOf(kind) {
        return ofKind(this.children, kind);
    }
    /**
     * The live child of this kind and name, in the parent's namespace or in another one that a cluster-scoped parent names; undefined
     * if there is none.
     */
    child(kind, name, namespace = this.namespace) {
        return this.childrenOf(kind).find((child) => child.name === name && child.namespace === namespace);
    }
    /**
     * A value that is generated once, such as a password: that of the key in the live child Secret of this name, or, if there is none, what
     * `make` returns; by default 24 random letters and digits. The plugin returns it in the Secret in every response, so that it stays. The
     * Secret is in the parent's namespace, or in another one that a cluster-scoped parent names.
     *
     * ```ts
     * const password = request.generated('db', 'password');
     * const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'db' }, data: { password: btoa(password) } };
     * ```
     */
    generated(secretName, key, make = randomText, namespace = this.namespace) {
        return secretValue(this.child(kinds.Secret, secretName, namespace)?.object, key) ?? make();
    }
    /** The largest live children, if the request would exceed `spec.limits.requestBytes` of the Plugin with them. */
    get leftOut() {
        return this.raw.leftOut.map(({ child, size }) => ({ ...child, size: Number(size) }));
    }
    /** Whether an optional kind of children or related objects exists in the cluster and is granted. False for all other kinds. */
    hasKind(kind) {
        return this.raw.kinds.some((one) => isSame(one, kind));
    }
    /** The namespaces in which the host refuses children: its own, and those that the Plugin does not grant by name. */
    get closedNamespaces() {
        return this.raw.capabilities.closedNamespaces;
    }
    /**
     * The related objects that the requirement of this id selects. Undefined while the host has not served the requirement: return a
     * response with the requirement and without whatever depends on it, and the host calls again at once. An object that does not exist
     * is served as no object. The kind is that of the requirement: it gives the objects their type.
     *
     * ```ts
     * const [certificate] = request.related('certificate', kinds.Secret) ?? [];
     * return {
     *   children: [certificate && ingress(request, certificate.name)],
     *   // In every response, also when the objects have been served.
     *   requirements: [{ id: 'certificate', kind: kinds.Secret, name: 'shop-tls' }],
     * };
     * ```
     */
    related(id, kind) {
        const objects = this.raw.related.find((related) => related.id === id)?.objects.map((object) => new LiveObject(object));
        return objects && (kind === undefined ? objects : ofKind(objects, kind));
    }
}
function ofKind(objects, kind) {
    return objects.filter((object) => isSame(object.kind, kind));
}
function isSame(one, other) {
    return one.name === other.name && one.apiVersion === other.apiVersion;
}
/** Reads the spec of a parent. @internal */
export function readSpec(type, parent) {
    // A parent without spec is one whose fields all have defaults, or a built-in kind that has no spec.
    const spec = parent['spec'] ?? {};
    return type === undefined ? spec : type.read(spec, 'spec');
}
function readStatus(type, status) {
    if (type === undefined || status === undefined || status === null) {
        return status ?? undefined;
    }
    try {
        return missingField(type, status) === undefined ? type.read(status, 'status') : undefined;
    }
    catch (error) {
        if (error instanceof Failure) {
            return undefined;
        }
        throw error;
    }
}
/** A field that the type of a status requires, and that the status lacks. The host does not check a status. @internal */
export function missingField(type, status) {
    const required = (type.keywords['required'] ?? []);
    return required.find((name) => !Object.hasOwn(status, name) || status[name] === null);
}
/** Reads the Plugin's `spec.config`. @internal */
export function readConfig(type, config) {
    const value = config === undefined ? {} : decode(config);
    try {
        return type === undefined ? value : type.read(value, "the Plugin's spec.config");
    }
    catch (error) {
        throw error instanceof Failure ? failed(error.message) : error;
    }
}
