/** The CustomResourceDefinition of a plugin. */
import type { JsonObject } from './json.js';
import type { Kind } from './kinds.js';
import type { Rule, Schema } from './schema.js';
/** A column of `kubectl get`. */
export interface Column {
    /** The title. */
    name: string;
    /** The type of the value. */
    type: 'integer' | 'number' | 'string' | 'boolean' | 'date';
    /** The JSON path of the value: `.spec.replicas`. */
    jsonPath: string;
    /** What the column shows. */
    description?: string;
    /** Above 0, only `kubectl get -o wide` shows the column. */
    priority?: number;
    /** The format of the value. */
    format?: string;
}
/** Which objects of their kind a plugin reconciles: those that match both selectors. */
export interface ParentSelector {
    /** A label selector in kubectl's syntax: `tier in (a,b),!legacy`. */
    labels?: string;
    /** A selector in the same syntax, over annotations. Objects that do not match cost the host memory. */
    annotations?: string;
}
/** A custom kind. */
export interface CustomResource<Spec, Status> {
    /** The group: `example.com`. */
    group: string;
    /** The version: `v1`. */
    version: string;
    /** The kind: `Greeting`. */
    kind: string;
    /** The plural. The default is the English plural of the kind (`echo`, `echoes`; `policy`, `policies`). */
    plural?: string;
    /** Whether objects are in namespaces; the default is `Namespaced`. */
    scope?: 'Namespaced' | 'Cluster';
    /** Short names for kubectl. */
    shortNames?: readonly string[];
    /** Categories: with `all`, `kubectl get all` shows objects of this kind. */
    categories?: readonly string[];
    /**
     * Columns of `kubectl get`. `Ready` (from the conditions) is always the first and `Age` the last, unless a column has this name.
     */
    columns?: readonly Column[];
    /** CEL rules on the whole object (`self.metadata.name`, `self.spec`, `oldSelf`). Rules on a field are options of its type. */
    rules?: readonly Rule[];
    /** The objects that the plugin reconciles; all by default. */
    selector?: ParentSelector;
    /** The type of `spec`, which users write. */
    spec: Schema<Spec>;
    /** The type of the plugin's part of `status`. The host adds `observedGeneration` and `conditions`. */
    status?: Schema<Status>;
}
/** A kind that exists already. */
export interface ExistingKind<Spec, Status> {
    /** The kind. */
    kind: Kind;
    /** The objects that the plugin reconciles; all by default. */
    selector?: ParentSelector;
    /** The type of `spec`, for a kind that has one. */
    spec?: Schema<Spec>;
    /** The type of `status`. */
    status?: Schema<Status>;
}
/** The objects that a plugin reconciles; {@link customResource} and {@link existing} make it. */
export interface Parent<Spec, Status> {
    /** The CRD; absent for an existing kind. */
    readonly crd?: Readonly<JsonObject>;
    /** The existing kind. */
    readonly existing?: Kind;
    /** The objects that the plugin reconciles. */
    readonly selector: ParentSelector;
    /** The type of `spec`. */
    readonly spec: Schema<Spec> | undefined;
    /** The type of the plugin's part of `status`. */
    readonly status: Schema<Status> | undefined;
}
/** Parents of a custom kind, whose CRD the component contains. */
export declare function customResource<Spec, Status = Record<string, never>>(resource: CustomResource<Spec, Status>): Parent<Spec, Status>;
/** Parents of a kind that the plugin does not define: a built-in kind, or a custom kind of another operator. */
export declare function existing<Spec = any, Status = any>(parent: ExistingKind<Spec, Status>): Parent<Spec, Status>;
/**
 * The rule that an object's name is a label by RFC 1035 of at most this many characters (63 or less): for a kind whose objects share
 * their name with a Service. A plugin that appends to the name subtracts the length of what it appends.
 */
export declare function rfc1035Name(maxLength?: number): Rule;
