/** The request of a call, typed. */
import type { ChildRef } from './child.js';
import type * as contract from './contract.js';
import { type Kind, type KubernetesObject } from './kinds.js';
/** The fields of an object's `metadata` that plugins need. */
export interface Metadata {
    /** The name. */
    readonly name: string;
    /** The namespace; absent for a cluster-scoped object. */
    readonly namespace?: string;
    /** The unique id: a later object of the same name has another one. */
    readonly uid: string;
    /** The generation, which grows with each change of the spec. */
    readonly generation: number;
    /** The labels. */
    readonly labels: Readonly<Record<string, string>>;
    /** The annotations. */
    readonly annotations: Readonly<Record<string, string>>;
    /** The time of creation in RFC 3339. */
    readonly creationTimestamp?: string;
    /** The time of the deletion request in RFC 3339; absent while the object is not being deleted. */
    readonly deletionTimestamp?: string;
    /** All others, as the API server sent them. */
    readonly [field: string]: any;
}
/** One entry of an object's `status.conditions`. */
export interface LiveCondition {
    /** The type, in CamelCase: `Ready`. */
    readonly type: string;
    /** The status. */
    readonly status: 'True' | 'False' | 'Unknown';
    /** Why the condition has this status, in CamelCase. */
    readonly reason?: string;
    /** Details for users. */
    readonly message?: string;
    /** The time of the last change of `status` in RFC 3339. */
    readonly lastTransitionTime?: string;
}
/** Whether an object is ready, by the rules of kstatus (`sigs.k8s.io/cli-utils`). */
export interface Readiness {
    /**
     * `ready`: it does what its spec says. `progressing`: not yet. `failed`: it will not become ready by itself. `unknown`: its kind is not
     * built in, and it has none of the conditions that tell.
     */
    readonly state: contract.Readiness['tag'];
    /** What is missing, or why it failed; else empty. */
    readonly message: string;
}
/** A live child that the request is too small for. The host neither changes, deletes nor recreates it. */
export interface LeftOut extends ChildRef {
    /** Its size as JSON, in bytes. */
    readonly size: number;
}
/** A live object: a child or a related object. */
export declare class LiveObject<T = KubernetesObject> {
    #private;
    /** The kind. */
    get kind(): contract.Kind;
    /** The name. */
    get name(): string;
    /** The namespace; undefined for a cluster-scoped object. */
    get namespace(): string | undefined;
    /** The object as the API server sent it. It is parsed at the first read. */
    get object(): T;
    /** The metadata. */
    get metadata(): Metadata;
    /** Whether the object is ready, and what is missing. Unknown if only the metadata was required. */
    get readiness(): Readiness;
    /** Whether the object is known to be ready. */
    get isReady(): boolean;
    /** Whether the object is being deleted (`metadata.deletionTimestamp`). */
    get isBeingDeleted(): boolean;
    /** The entry of `status.conditions` with this type; undefined if there is none. */
    condition(type: string): LiveCondition | undefined;
    /** Whether the condition of this type has status True. */
    isConditionTrue(type: string): boolean;
}
/** Everything that a response may depend on. */
export declare class Request<Spec = any, Status = any, Config = any> {
    #private;
    /** The untyped request of the contract. */
    readonly raw: contract.Request;
    /** The parent's name. */
    get name(): string;
    /** The parent's namespace; undefined for a cluster-scoped parent. */
    get namespace(): string | undefined;
    /** The parent's uid. */
    get uid(): string;
    /** The parent's metadata. */
    get metadata(): Metadata;
    /**
     * The parent's spec, with defaults. It fits the schema of the CRD: the host reports any other parent as invalid without a call.
     *
     * In a clean-up it may be any spec, so that a parent with an invalid one can be cleaned up and deleted: a required field may be
     * `undefined`, and a value out of its bounds. Reading fails only if JSON of another type than declared cannot be converted. The host does
     * not check parents of an {@link existing} kind either; if their spec cannot be read, the call fails before the plugin's function runs.
     */
    get spec(): Spec;
    /**
     * The parent's status as last written; undefined if there is none, or if it lacks a field that its type requires or has one of another
     * type: an older version may have written it, or the host alone.
     */
    get status(): Status | undefined;
    /** The whole parent, as the API server sent it, for kinds with fields outside `spec`. */
    get parent(): KubernetesObject;
    /**
     * The Plugin's `spec.config`, with defaults; without one, `{}` is read. The host refuses a config that does not fit the declared type. If
     * one cannot be converted, the call fails (`failed`): the parent's user cannot correct it.
     */
    get config(): Config;
    /**
     * The time at which the reconcile began.
     *
     * @throws {TypeError} if the plugin has no {@link Definition.clock}.
     */
    get now(): Date;
    /**
     * Whether the plugin has to clean up ({@link Definition.finalizes}). The response then lists the children that must still exist, and
     * {@link Response.finalized} ends the parent.
     */
    get isFinalizing(): boolean;
    /**
     * Why the plugin has to clean up: the parent is being deleted, or it or its namespace does not match the selector any more. Undefined
     * unless {@link isFinalizing}.
     */
    get cause(): contract.FinalizeCause | undefined;
    /**
     * Whether the parent is being finalized in a namespace that is being deleted. No child can be created there, and the host removes
     * the finalizer after 30 seconds: a plugin that cleans up with a Job must do without it.
     */
    get isNamespaceTerminating(): boolean;
    /**
     * Whether the children of the last response for the current generation of the spec have been applied: the host writes this into
     * `status.observedGeneration` and the condition `Stalled`. Until then the live children belong to an older spec: however complete
     * they look, the parent is not ready. Always false for kinds whose status has no such fields, as built-in kinds.
     */
    get isSpecApplied(): boolean;
    /** All live children, ordered by apiVersion, kind, namespace and name; see {@link childrenOf}. */
    get children(): readonly LiveObject[];
    /**
     * The live children of one kind, ordered by namespace and name. Children that are being deleted are among them; those that are
     * {@link leftOut} are not.
     */
    childrenOf<T>(kind: Kind<T>): LiveObject<T>[];
    /**
     * The live child of this kind and name, in the parent's namespace or in another one that a cluster-scoped parent names; undefined
     * if there is none.
     */
    child<T>(kind: Kind<T>, name: string, namespace?: string | undefined): LiveObject<T> | undefined;
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
    generated(secretName: string, key: string, make?: () => string, namespace?: string | undefined): string;
    /** The largest live children, if the request would exceed `spec.limits.requestBytes` of the Plugin with them. */
    get leftOut(): LeftOut[];
    /** Whether an optional kind of children or related objects exists in the cluster and is granted. False for all other kinds. */
    hasKind(kind: Kind<any>): boolean;
    /** The namespaces in which the host refuses children: its own, and those that the Plugin does not grant by name. */
    get closedNamespaces(): readonly string[];
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
    related<T = KubernetesObject>(id: string, kind?: Kind<T>): LiveObject<T>[] | undefined;
}
