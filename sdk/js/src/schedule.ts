/** Times of cron schedules in time zones, which the host computes. */

import type { ScheduleProblem } from './contract.js';
import { invalid } from './failure.js';
import { schedules } from './host.js';
import { sinceEpoch } from './response.js';

/** How a {@link Schedule} is read, and how a {@link Failure} names it. */
export interface ScheduleOptions {
  /** A name of the IANA time zone database, such as `Europe/Berlin`. Without it, or empty: UTC. */
  timeZone?: string | undefined;
  /** The field of the parent that has the schedule, such as `spec.schedule`: the failure about a wrong one names it. */
  field?: string | undefined;
  /** The field of the parent that has the time zone. */
  timeZoneField?: string | undefined;
}

/** What of a schedule is due at a time. */
export interface Due {
  /**
   * The latest time of the schedule that was reached and not handled yet; undefined if there is none. Earlier ones are missed for good.
   */
  time: Date | undefined;
  /** The next time of the schedule, for {@link Response.requeueAt}. */
  next: Date;
}

/**
 * A cron schedule in a time zone. A plugin that does something at times of a schedule has a {@link Definition.clock}, asks what is due, and
 * is called again at the next time:
 *
 * ```ts
 * const { timeZone } = request.spec;
 * const schedule = new Schedule(request.spec.schedule, { timeZone, field: 'spec.schedule', timeZoneField: 'spec.timeZone' });
 * const due = schedule.due({ last, now: request.now });
 * if (due.time) {
 *   // Return the children for this time, and remember it in the status: it is `last` in the next call.
 * }
 * return { children, requeueAt: due.next };
 * ```
 *
 * A time of the day that the clock skips for daylight saving comes when the clock changes, and one that it repeats comes the first time; a
 * schedule whose minutes or hours begin with `*` follows the clock instead.
 *
 * All functions throw the {@link Failure} `invalid` if the schedule is malformed or never happens, or if the time zone is none.
 */
export class Schedule {
  readonly #cron: string;
  readonly #options: ScheduleOptions;

  /**
   * @param cron the five fields of a Kubernetes CronJob, such as `0 3 * * *`, or a name such as `@daily`.
   * @param options the time zone, and the fields that a failure names.
   */
  constructor(cron: string, options: ScheduleOptions = {}) {
    this.#cron = String(cron);
    this.#options = options;
  }

  /** Returns the first time after this one. */
  next(after: Date): Date {
    return this.#ask(() => time(schedules.next(this.#cron, this.#timeZone(), sinceEpoch(after, 'after'))));
  }

  /** Returns the last time at or before this one; undefined if there was none since 1970. */
  previous(at: Date): Date | undefined {
    return this.#ask(() => {
      const previous = schedules.previous(this.#cron, this.#timeZone(), sinceEpoch(at, 'at'));
      return previous === undefined ? undefined : time(previous);
    });
  }

  /**
   * Returns what is due.
   *
   * @param at `now` is {@link Request.now}, and `last` the time that was handled last, or before the first one the time from which the
   * schedule counts, such as the creation of the parent.
   */
  due({ last, now }: { last: Date; now: Date }): Due {
    const previous = this.previous(now);
    const isHandled = previous === undefined || BigInt(previous.getTime()) <= sinceEpoch(last, 'last');
    return { time: isHandled ? undefined : previous, next: this.next(now) };
  }

  #timeZone(): string {
    return String(this.#options.timeZone ?? '');
  }

  #ask<T>(question: () => T): T {
    try {
      return question();
    } catch (error) {
      const problem = (error as { payload?: ScheduleProblem }).payload;
      if (problem === undefined) {
        throw error;
      }
      const field = problem.tag === 'schedule' ? this.#options.field : this.#options.timeZoneField;
      throw invalid(field ?? '', problem.val);
    }
  }
}

function time(milliseconds: bigint): Date {
  return new Date(Number(milliseconds));
}
