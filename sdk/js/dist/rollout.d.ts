/** Rollouts of workloads, from their status. */
import type { LiveObject } from './request.js';
/** How far a rollout is, by the rules of kstatus (`sigs.k8s.io/cli-utils`). */
export type RolloutState = 'Progressing' | 'Complete' | 'Failed';
/** The Pods of a Deployment, StatefulSet or DaemonSet, and how far its last change is rolled out; {@link rollout} returns it. */
export interface Rollout {
    /** Pods that the spec desires (`spec.replicas`, which an autoscaler writes too), or a DaemonSet for its nodes. */
    readonly desired: number;
    /** Pods that exist, with those of older revisions. */
    readonly replicas: number;
    /** Pods of the current revision. */
    readonly updated: number;
    /** Pods that are Ready. */
    readonly ready: number;
    /** Pods that have been Ready for at least `spec.minReadySeconds`. */
    readonly available: number;
    /** Whether the status is older than the spec: then the counts are of the spec before. */
    readonly isOutdated: boolean;
    /**
     * `Complete`: all desired Pods are available and of the current revision, and there are no others. The revision does not count where a
     * StatefulSet has a partition, or where users delete Pods to update them (`OnDelete`). `Failed`: the rollout of a Deployment does not
     * go on without a change.
     */
    readonly state: RolloutState;
    /** The message of the condition of a failed rollout. */
    readonly failure: string;
}
/**
 * Returns the rollout of a live Deployment, StatefulSet or DaemonSet; counts that cannot be read are 0. An object that does not exist has no
 * Pods, and is progressing.
 *
 * ```ts
 * const { state, ready } = rollout(request.child(kinds.StatefulSet, request.name));
 * ```
 */
export declare function rollout(workload: LiveObject<any> | undefined): Rollout;
/** A message for users: `2/3 replicas ready`, followed by the message of a failed rollout. `desired` is the parent's number of replicas. */
export declare function rolloutMessage({ ready, state, failure }: Pick<Rollout, 'ready' | 'state' | 'failure'>, desired: number): string;
