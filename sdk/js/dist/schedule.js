/** Times of cron schedules in time zones, which the host computes. */
import { invalid } from './failure.js';
import { schedules } from './host.js';
import { sinceEpoch } from './response.js';
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
    #cron;
    #options;
    /**
     * @param cron the five fields of a Kubernetes CronJob, such as `0 3 * * *`, or a name such as `@daily`.
     * @param options the time zone, and the fields that a failure names.
     */
    constructor(cron, options = {}) {
        this.#cron = String(cron);
        this.#options = options;
    }
    /** Returns the first time after this one. */
    next(after) {
        return this.#ask(() => time(schedules.next(this.#cron, this.#timeZone(), sinceEpoch(after, 'after'))));
    }
    /** Returns the last time at or before this one; undefined if there was none since 1970. */
    previous(at) {
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
    due({ last, now }) {
        const previous = this.previous(now);
        const isHandled = previous === undefined || BigInt(previous.getTime()) <= sinceEpoch(last, 'last');
        return { time: isHandled ? undefined : previous, next: this.next(now) };
    }
    #timeZone() {
        return String(this.#options.timeZone ?? '');
    }
    #ask(question) {
        try {
            return question();
        }
        catch (error) {
            const problem = error.payload;
            if (problem === undefined) {
                throw error;
            }
            const field = problem.tag === 'schedule' ? this.#options.field : this.#options.timeZoneField;
            throw invalid(field ?? '', problem.val);
        }
    }
}
function time(milliseconds) {
    return new Date(Number(milliseconds));
}
