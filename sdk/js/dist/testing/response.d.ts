/** Responses in tests: parsed, and as the answers of golden cases have them. */
import type { ChildOptions, ChildRef, UpdateStrategy } from '../child.js';
import type * as contract from '../contract.js';
import type { KubernetesObject, ObjectMeta } from '../kinds.js';
import type { Event } from '../response.js';
import type { HostCalls } from './host.js';
/** A desired child. */
export interface Child extends KubernetesObject {
    /** As in `apps/v1`. */
    apiVersion: string;
    /** As in `Deployment`. */
    kind: string;
    /** The metadata. */
    metadata: ObjectMeta & Named;
}
/** What has a name. */
export interface Named {
    /** The name. */
    name: string;
}
/** The response of a plugin with parsed JSON, and the calls of the host's functions. */
export interface TestResponse extends HostCalls {
    /** All desired children, in the plugin's order. */
    children: Child[];
    /** The options of each child that are not the default, in the same order. */
    options: ChildOptions[];
    /** Live children that stay as they are. */
    keep: 'all' | ChildRef[];
    /** The plugin's part of the status, with its conditions. */
    status: any;
    /** What the plugin waits for. */
    waiting: string | undefined;
    /** Milliseconds until the next reconcile. */
    requeue: number | undefined;
    /** The time of the next reconcile. */
    requeueAt: Date | undefined;
    /** Events on the parent. */
    events: Event[];
    /** Related objects that the response depends on. */
    requirements: contract.Requirement[];
    /** Whether the host may remove the finalizer. */
    finalized: boolean;
}
/** A response with parsed JSON. */
export type Parsed = Omit<TestResponse, keyof HostCalls>;
/** Parses a response. */
export declare function parsed(response: contract.Response): Parsed;
/** The update strategy as a plugin writes it. */
export declare function updateOf(update: contract.UpdateStrategy): UpdateStrategy;
/** A response without its children, as a golden answer has it. Empty fields may be there. */
export declare function written(response: Parsed): Record<string, unknown>;
/** The update strategy as a golden answer has it. */
export declare function updateDocument(update: UpdateStrategy): unknown;
