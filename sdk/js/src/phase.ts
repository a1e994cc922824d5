/** A phase that summarizes a status, with all that follows from it. */

import { stringify } from './json.js';
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

/** The time until the next reconcile of a parent in a failed phase: its cause may be something that the host does not watch. */
const REQUEUE_FAILED = '30s';

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
export function withPhase<Status extends StatusWithPhase>(
  request: Request<any, Status, any>,
  response: Response<Status>,
  { message, ready = ['Running'], failed = ['Failed'], timeField }: PhaseOptions<Status>,
): Response<Status> {
  const { status } = response;
  if (status === undefined) {
    throw new TypeError('a response without a status has no phase');
  }
  const { phase } = status;
  const before = request.status;
  const isFailed = failed.includes(phase);
  const event = { type: isFailed ? 'Warning' : 'Normal', reason: phase, message } as const;
  return {
    ...response,
    status: timeField === undefined ? status : { ...status, [timeField]: timeOf(before, status, timeField) },
    conditions: [...(response.conditions ?? []), { type: 'Ready', status: ready.includes(phase), reason: phase, message }],
    events: [...(response.events ?? []), ...(before !== undefined && before.phase !== phase ? [event] : [])],
    requeue: isFailed ? REQUEUE_FAILED : response.requeue,
  };
}

/** The time in the status before if all other fields are the same, or else now. */
function timeOf<Status>(before: Status | undefined, status: Status, field: keyof Status & string): unknown {
  const time = before?.[field];
  const others = (of: Status | undefined) => stringify(sorted({ ...of, [field]: undefined }));
  return time !== undefined && others(before) === others(status) ? time : `${new Date().toISOString().slice(0, 19)}Z`;
}

/** A value with its fields in an order that depends on nothing else. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(sorted);
  }
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) {
    return value;
  }
  const fields = Object.entries(value).filter(([, field]) => field !== undefined && field !== null);
  return Object.fromEntries(fields.sort(([one], [other]) => (one < other ? -1 : 1)).map(([name, field]) => [name, sorted(field)]));
}
