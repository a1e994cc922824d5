/** The definition of a plugin. */
import { AdmissionRequest, type Verdict } from './admission.js';
import { type UpdateStrategy } from './child.js';
import type * as contract from './contract.js';
import type { Parent } from './crd.js';
import { type Duration } from './duration.js';
import { type Kind } from './kinds.js';
import { Request } from './request.js';
import { type Response } from './response.js';
import type { Schema } from './schema.js';
/** An operator: its description, and the function that returns the desired state. */
export interface Definition<Spec, Status, Config> {
    /** A DNS label; also the default name of the Plugin resource. */
    name: string;
    /** Semantic version of the component. */
    version: string;
    /** One sentence about what the plugin does. */
    description?: string;
    /** The objects that the plugin reconciles: {@link customResource} or {@link existing}. */
    parent: Parent<Spec, Status>;
    /** The kinds of children. */
    children?: readonly (Kind<any> | ChildRule)[];
    /** The kinds that requirements may name. The plugin reads such objects and does not own them. */
    related?: readonly (Kind<any> | RelatedRule)[];
    /**
     * Gives parents a finalizer. When they are deleted or leave the selector, the plugin is called to clean up
     * ({@link Request.isFinalizing}).
     *
     * Their spec may be invalid ({@link Request.spec}), and reading it may fail: a function that begins with `const { spec } = request` can
     * block the deletion of such a parent. Clean up before the spec is read:
     *
     * ```ts
     * if (request.isFinalizing) {
     *   return { finalized: true };
     * }
     * const { spec } = request;
     * ```
     */
    finalizes?: boolean;
    /**
     * Whether the children of a deleted parent are deleted in reverse order of their stages ({@link ChildOptions.stage}), each stage gone
     * before the next.
     */
    orderedDeletion?: boolean;
    /**
     * What the condition `Ready` of a parent means: that all `children` were applied and are ready (the default); that they were `applied`;
     * or what the `plugin` says. A condition `Ready` of the response takes precedence.
     */
    readyMeans?: 'children' | 'applied' | 'plugin';
    /**
     * Whether {@link Request.now} has the time. A response with {@link Response.requeueAt} is reused until then if nothing else changes, and
     * one without it never.
     */
    clock?: boolean;
    /** The time between reconciles of a parent while nothing changes. The host adds jitter, and has a default. */
    resync?: Duration;
    /** The type of the Plugin's `spec.config`, which {@link Request.config} reads. */
    config?: Schema<Config>;
    /** The metrics that {@link measure} may name. */
    metrics?: readonly Metric[];
    /**
     * Returns the desired state for one parent. It depends on its request alone, and returns the same response for the same request.
     *
     * @throws {Failure} {@link invalid} if the user's spec is invalid, {@link failed} for all other failures. A plugin that waits for
     * something returns {@link wait}.
     */
    reconcile(request: Request<Spec, Status, Config>): Response<NoInfer<Status>>;
    /**
     * Validates and defaults a parent before it is stored. **The host does not serve admission yet**: it registers no webhook and never
     * calls this function, which only the tests call. In a cluster the CRD's schema and its CEL rules validate and default. A
     * {@link Failure} that is thrown denies the write with its message.
     */
    review?(request: AdmissionRequest<Spec, Config>): Verdict;
}
/** A kind of children. A kind alone is one that must exist, updated by server-side apply. */
export interface ChildRule {
    /** The kind. */
    kind: Kind<any>;
    /** How the host changes existing children that have no strategy of their own; `apply` by default. */
    update?: UpdateStrategy;
    /**
     * Whether the kind may be missing in the cluster. Then the host leaves out returned children of it, and {@link Request.hasKind} is false.
     * Without it, a missing kind stops the plugin.
     */
    optional?: boolean;
}
/** A kind of related objects. A kind alone is one that must exist. */
export interface RelatedRule {
    /** The kind. */
    kind: Kind<any>;
    /** Whether the kind may be missing in the cluster. Then requirements of it select nothing. */
    optional?: boolean;
}
/** A metric that the plugin reports with {@link measure}. */
export interface Metric {
    /** A Prometheus name without prefix. */
    name: string;
    /** Whether values add up (`counter`), replace each other (`gauge`) or form a distribution (`histogram`). */
    type: 'counter' | 'gauge' | 'histogram';
    /** A UCUM unit (`s`, `By`); leave it out for plain numbers. */
    unit?: string;
    /** One sentence. */
    description: string;
    /** The names of labels. */
    labels?: readonly string[];
}
/** A plugin; {@link plugin} makes it. */
export interface Plugin<Spec = any, Status = any, Config = any> {
    /** What it was made of. */
    readonly definition: Readonly<Definition<Spec, Status, Config>>;
    /** The contract's interface `reconciler`. */
    readonly reconciler: contract.Reconciler;
    /** The contract's interface `admission`; undefined for a plugin without {@link Definition.review}. */
    readonly admission: contract.Admission | undefined;
}
/**
 * Makes a plugin: the default export of a plugin's module.
 *
 * The types of the request and of the response's status come from the schemas in the definition.
 */
export declare function plugin<Spec, Status, Config = Record<string, never>>(definition: Definition<Spec, Status, Config>): Plugin<Spec, Status, Config>;
