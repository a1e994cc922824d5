/**
 * The types of the contract `windlass:plugin@0.1.0` (wit/), as componentize-js maps them: `u64` is a bigint, `list<u8>` a
 * Uint8Array, an absent `option` undefined, and the error of a `result` is thrown. A plugin needs none of them.
 */
/** One JSON document in UTF-8. */
export type Json = Uint8Array;
/** A case of a variant that has no value. */
export interface Tag<Name extends string> {
    /** The name of the case. */
    tag: Name;
}
/** A case of a variant, with its value. */
export interface Case<Name extends string, Value> extends Tag<Name> {
    /** The value. */
    val: Value;
}
/** Names and values of fields, labels or attributes. */
export type Pairs = [name: string, value: string][];
/** A kind, by the fields `apiVersion` and `kind` of its objects. */
export interface Kind {
    /** As in an object's `apiVersion`. */
    readonly apiVersion: string;
    /** As in an object's `kind`. */
    readonly name: string;
}
/** An object that exists. */
export interface Observed {
    /** Its kind. */
    readonly kind: Kind;
    /** Its namespace; absent for a cluster-scoped object. */
    readonly namespace?: string | undefined;
    /** Its name. */
    readonly name: string;
    /** The object. */
    readonly object: Json;
}
/** Additional fields, by name. */
export type Extensions = [name: string, value: Json][];
/** Description of a plugin. */
export interface Descriptor {
    /** A DNS label. */
    name: string;
    /** Semantic version. */
    version: string;
    /** One sentence. */
    description: string;
    /** The objects that the plugin reconciles. */
    parent: Parent;
    /** The kinds of children. */
    children: ChildRule[];
    /** The kinds that a requirement may name. */
    related: Kind[];
    /** Whether parents get a finalizer. */
    finalizes: boolean;
    /** Milliseconds between reconciles while nothing changes. */
    resync?: bigint | undefined;
    /** JSON Schema of the Plugin's `spec.config`. */
    configSchema?: Json | undefined;
    /** The metrics that the plugin measures. */
    metrics: Metric[];
    /** Empty for now. */
    extensions: Extensions;
}
/** The objects that a plugin reconciles: a CRD, or a kind that exists already. */
export type Parent = Case<'custom', Json> | Case<'existing', ExistingParent>;
/** A parent kind that exists already. */
export interface ExistingParent {
    /** The kind. */
    kind: Kind;
    /** A label selector in kubectl's syntax; absent for all objects. */
    selector?: string | undefined;
}
/** A child kind and its update strategy. */
export interface ChildRule {
    /** The kind. */
    kind: Kind;
    /** How the host changes existing children. */
    update: UpdateStrategy;
}
/** How the host changes an existing child to its desired state. */
export type UpdateStrategy = Tag<'apply'> | Tag<'recreate'> | Tag<'on-delete'> | Case<'rolling', Rolling>;
/** An update of one child at a time. */
export interface Rolling {
    /** Whether children are recreated instead of applied in place. */
    recreate: boolean;
    /** Types of the conditions that must be True before the next child changes. */
    conditions: string[];
}
/** A metric that the plugin measures. */
export interface Metric {
    /** Name in Prometheus' syntax, without prefix. */
    name: string;
    /** UCUM unit, or empty. */
    unit: string;
    /** One sentence. */
    description: string;
    /** How values are combined. */
    metricType: 'counter' | 'gauge' | 'histogram';
    /** Names of labels. */
    labels: string[];
}
/** Everything that a response may depend on. */
export interface Request {
    /** Why the plugin is called. */
    readonly phase: 'sync' | 'finalize';
    /** The parent. */
    readonly parent: Json;
    /** The live children. */
    readonly children: readonly Observed[];
    /** The objects of the last response's requirements. */
    readonly related: readonly Related[];
    /** The Plugin's `spec.config`. */
    readonly config?: Json | undefined;
    /** `namespace-terminating`, or nothing. */
    readonly extensions: Readonly<Extensions>;
}
/** The objects that a requirement selects. */
export interface Related {
    /** The id of the requirement. */
    readonly id: string;
    /** The objects, ordered by namespace and name. */
    readonly objects: readonly Observed[];
}
/** Objects that a response depends on without owning them. */
export interface Requirement {
    /** Unique in one response. */
    id: string;
    /** The kind. */
    kind: Kind;
    /** Absent: the parent's namespace. */
    namespace?: string | undefined;
    /** Which objects: the one of a name, or those that match a label selector. */
    select: Case<'name' | 'labels', string>;
}
/** The desired state of a parent. */
export interface Response {
    /** All desired children. */
    children: Json[];
    /** The plugin's part of the status. */
    status?: Json | undefined;
    /** Milliseconds until the next reconcile. */
    requeue?: bigint | undefined;
    /** Events on the parent. */
    events: Event[];
    /** All requirements. */
    requirements: Requirement[];
    /** Whether clean-up is complete. */
    finalized: boolean;
    /** Empty for now. */
    extensions: Extensions;
}
/** A Kubernetes event on the parent. */
export interface Event {
    /** Normal or warning. */
    eventType: 'normal' | 'warning';
    /** Reason in CamelCase. */
    reason: string;
    /** Message for users. */
    message: string;
}
/** Why there is no response. */
export type Failure = Case<'invalid' | 'failed', string> | Case<'retry', Retry>;
/** A failure of a plugin that waits for something. */
export interface Retry {
    /** What the plugin waits for, for users. */
    message: string;
    /** Milliseconds until the next call. */
    after: bigint;
}
/** One write of a parent. */
export interface AdmissionRequest {
    /** The operation. */
    readonly operation: 'create' | 'update' | 'delete';
    /** The object after it. */
    readonly object?: Json | undefined;
    /** The object before it. */
    readonly oldObject?: Json | undefined;
    /** Name of the user. */
    readonly username: string;
    /** The Plugin's `spec.config`. */
    readonly config?: Json | undefined;
}
/** The outcome of a review. */
export type Verdict = Case<'allow', string[]> | Case<'replace', Json> | Case<'deny', string>;
/** Level of a log line. */
export type Level = 'trace' | 'debug' | 'info' | 'warn' | 'error';
/** The functions that the host offers. */
export interface Host {
    /** Writes a line into the host's log. */
    log(level: Level, message: string, fields: Pairs): void;
    /** Sets an attribute of the call's span. */
    spanAttribute(key: string, value: string): void;
    /** Adds an event to the call's span. */
    spanEvent(name: string, attributes: Pairs): void;
    /** Reports a measured value. */
    measure(metric: string, value: number, labels: Pairs): void;
}
/** The interface `reconciler`. */
export interface Reconciler {
    /** Describes the plugin. */
    describe(): Descriptor;
    /** Returns the desired state, or throws a {@link Failure}. */
    reconcile(request: Request): Response;
}
/** The interface `admission`. */
export interface Admission {
    /** Reviews one write. */
    review(request: AdmissionRequest): Verdict;
}
