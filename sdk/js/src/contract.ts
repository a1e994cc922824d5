/**
 * The types of the contract `windlass:plugin@0.2.0-rc.1` (wit/), as componentize-js maps them: `u64` is a bigint, `list<u8>` a
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

/** Which child. */
export interface ChildRef {
  /** Its kind, in any version that is served. */
  readonly kind: Kind;
  /** Its namespace; absent: the parent's, or none for a child of a cluster-scoped kind. */
  readonly namespace?: string | undefined;
  /** Its name. */
  readonly name: string;
}

/** Whether an object is ready, with what is missing or why it failed. */
export type Readiness = Tag<'ready'> | Case<'progressing' | 'failed', string> | Tag<'unknown'>;

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
  /** Whether it is ready. */
  readonly readiness: Readiness;
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
  related: RelatedRule[];
  /** Systems outside the cluster's API: none. */
  endpoints: never[];
  /** Whether parents get a finalizer. */
  finalizes: boolean;
  /** Whether the children of a deleted parent are deleted in reverse order of their stages. */
  orderedDeletion: boolean;
  /** What `Ready=True` of a parent means. */
  readyMeans: 'children' | 'applied' | 'plugin';
  /** Whether requests have the time. */
  clock: boolean;
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
export type Parent = Case<'custom', CustomParent> | Case<'existing', ExistingParent>;

/** A parent kind that the component defines. */
export interface CustomParent {
  /** The CRD. */
  definition: Json;
  /** The objects of this kind. */
  selector: ParentSelector;
}

/** A parent kind that exists already. */
export interface ExistingParent {
  /** The kind. */
  kind: Kind;
  /** The objects of this kind. */
  selector: ParentSelector;
}

/** The objects that match both selectors. */
export interface ParentSelector {
  /** A label selector in kubectl's syntax. */
  labels?: string | undefined;
  /** A selector in the same syntax, over annotations. */
  annotations?: string | undefined;
}

/** A child kind and its update strategy. */
export interface ChildRule {
  /** The kind. */
  kind: Kind;
  /** How the host changes existing children. */
  update: UpdateStrategy;
  /** Whether the kind may be missing in the cluster. */
  optional: boolean;
}

/** A kind of related objects. */
export interface RelatedRule {
  /** The kind. */
  kind: Kind;
  /** Whether the kind may be missing in the cluster. */
  optional: boolean;
}

/** How the host changes an existing child to its desired state. */
export type UpdateStrategy = Tag<'apply'> | Tag<'recreate'> | Tag<'on-delete'> | Case<'rolling', Rolling>;

/** An update of one child at a time. */
export interface Rolling {
  /** Whether children are recreated instead of applied in place. */
  recreate: boolean;
  /** Types of the conditions that must be True before the next child changes; none: it is ready. */
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
  readonly phase: Tag<'sync'> | Case<'finalize', Finalizing>;
  /** The parent's kind. */
  readonly parentKind: Kind;
  /** The parent. */
  readonly parent: Json;
  /** The live children. */
  readonly children: readonly Observed[];
  /** The live children that the request is too small for. */
  readonly leftOut: readonly LeftOut[];
  /** The objects of the last response's requirements. */
  readonly related: readonly Related[];
  /** Answers of other systems: none. */
  readonly http: readonly never[];
  /** The optional kinds that exist and are granted. */
  readonly kinds: readonly Kind[];
  /** Milliseconds since 1970; absent without {@link Descriptor.clock}. */
  readonly now?: bigint | undefined;
  /** The Plugin's `spec.config`. */
  readonly config?: Json | undefined;
  /** What the host offers and refuses. */
  readonly capabilities: Capabilities;
  /** Empty for now. */
  readonly extensions: Readonly<Extensions>;
}

/** Why a parent is finalized. */
export interface Finalizing {
  /** The cause. */
  readonly cause: FinalizeCause;
  /** Whether its namespace is being deleted. */
  readonly namespaceTerminating: boolean;
}

/** What happened to a parent that is finalized. */
export type FinalizeCause = 'deleted' | 'left-selector' | 'left-namespaces';

/** A child that is not in a request. */
export interface LeftOut {
  /** The child. */
  readonly child: ChildRef;
  /** Its size as JSON, in bytes. */
  readonly size: bigint;
}

/** What the host offers and refuses. */
export interface Capabilities {
  /** What was added to the contract after this version. */
  readonly features: readonly string[];
  /** The namespaces in which no plugin may have children. */
  readonly closedNamespaces: readonly string[];
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
  /** In which namespaces. */
  namespaces: Tag<'of-parent'> | Case<'named', string[]> | Tag<'all'>;
  /** Which objects: the one of a name, or those that match a label selector. */
  select: Case<'name' | 'labels', string> | Case<'label-selector', Json>;
  /** Whether their metadata is enough. */
  metadataOnly: boolean;
}

/** A child that should exist. */
export interface DesiredChild {
  /** The child. */
  object: Json;
  /** It waits for those of lower stages. */
  stage: number;
  /** Whether it stays after its parent is deleted. */
  retain: boolean;
  /** Whether the host takes fields that another field manager owns. */
  takeOver: boolean;
  /** Whether it is created whenever it is missing, or once for each value of a text. */
  create: Tag<'always'> | Case<'once', string>;
  /** Whether it is ready, if the plugin knows. */
  ready?: boolean | undefined;
  /** How the host changes it, if not as its kind. */
  update?: UpdateStrategy | undefined;
  /** A child that may be in its way. */
  replaces?: ChildRef | undefined;
}

/** The desired state of a parent. */
export interface Response {
  /** All desired children. */
  children: DesiredChild[];
  /** Existing children that stay as they are. */
  keep: Tag<'none'> | Case<'these', ChildRef[]> | Tag<'all'>;
  /** The plugin's part of the status. */
  status?: Json | undefined;
  /** What the plugin waits for. */
  waiting?: string | undefined;
  /** Milliseconds until the next reconcile. */
  requeue?: bigint | undefined;
  /** The time of the next reconcile, in milliseconds since 1970. */
  requeueAt?: bigint | undefined;
  /** Events on the parent. */
  events: Event[];
  /** All requirements. */
  requirements: Requirement[];
  /** Requests to other systems: none. */
  http: never[];
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
export type Failure = Case<'invalid', Invalid> | Case<'failed', string>;

/** What is invalid in a parent. */
export interface Invalid {
  /** The field; absent: the parent as a whole. */
  field?: string | undefined;
  /** Message for users. */
  message: string;
}

/** One write of a parent. */
export interface AdmissionRequest {
  /** The operation. */
  readonly operation: 'create' | 'update' | 'delete';
  /** The kind of the objects. */
  readonly kind: Kind;
  /** The subresource that is written. */
  readonly subresource?: string | undefined;
  /** The namespace; absent for a cluster-scoped object. */
  readonly namespace?: string | undefined;
  /** The labels of the namespace. */
  readonly namespaceLabels: Readonly<Pairs>;
  /** The name; absent if the API server generates it later. */
  readonly name?: string | undefined;
  /** The object after it. */
  readonly object?: Json | undefined;
  /** The object before it. */
  readonly oldObject?: Json | undefined;
  /** Whether nothing is stored. */
  readonly dryRun: boolean;
  /** Name of the user. */
  readonly username: string;
  /** Groups of the user. */
  readonly groups: readonly string[];
  /** The Plugin's `spec.config`. */
  readonly config?: Json | undefined;
}

/** The outcome of a review. */
export interface Verdict {
  /** What happens to the write. */
  decision: Tag<'allow'> | Case<'replace', Json> | Case<'deny', Invalid>;
  /** Warnings for the user. */
  warnings: string[];
}

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

/** The times of schedules, which the host computes. Times are in milliseconds since 1970; a wrong schedule or time zone is thrown. */
export interface Schedules {
  /** Returns the first time after `after`. */
  next(schedule: string, timeZone: string, after: bigint): bigint;
  /** Returns the last time at or before `at`, if there is one. */
  previous(schedule: string, timeZone: string, at: bigint): bigint | undefined;
}

/** What {@link Schedules} throw, as the payload of an error: the sentence about what is wrong. */
export interface ScheduleProblem {
  /** Whether the schedule is wrong, or the time zone. */
  tag: 'schedule' | 'time-zone';
  /** The sentence. */
  val: string;
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
