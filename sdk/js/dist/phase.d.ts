/** A phase that summarizes a status, with all that follows from it. */
import type { Request } from './request.js';
import type { Response } from './response.js';
/** A status with a phase. */
export interface StatusWithPhase {
    /** The phase, in one word. */
    phase: string;
}
/** How {@link withPhase} reads the phase, which is `status.phase`. */
export interface PhaseOptions<Status extends StatusWithPhase> {
    /** Details for users: the message of the condition `Ready` and of the event. */
    message: string;
    /** The phases in which the parent is ready; by default `Running`. */
    ready?: readonly Status['phase'][];
    /** The phases in which the parent does not become ready without a change; by default `Failed`. */
    failed?: readonly Status['phase'][];
    /** The field of the status that gets the time of the last change of its other fields. */
    timeField?: keyof Status & string;
}
/**
 * A response with everything that follows from the phase of its status:
 *
 * - the condition `Ready`, with the phase as its reason and this message;
 * - one event when the phase changes, a warning if the new phase is failed; none for the first status;
 * - the time of the last change in `timeField`, which moves only when another field does, so that the clock is not read in steady state;
 * - a requeue after 30 seconds in a failed phase.
 *
 * ```ts
 * const { state, ready } = rollout(deployment);
 * const phase = state === 'Complete' ? 'Running' : state === 'Failed' ? 'Failed' : 'Pending';
 * return withPhase(request, { children, status: { phase, ready } }, { message: `${ready} Pods are ready` });
 * ```
 */
export declare function withPhase<Status extends StatusWithPhase>(request: Request<any, Status, any>, response: Response<Status>, { message, ready, failed, timeField }: PhaseOptions<Status>): Response<Status>;
