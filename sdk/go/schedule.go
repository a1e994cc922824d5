package windlass

import (
	"time"

	"windlass.dev/plugin/internal/host"
)

// Schedule is a cron schedule in a time zone. The host computes its times: a component has no time zone database, and one that uses no
// schedule is not larger for it.
//
// A plugin that does something at times of a schedule has a [Plugin.Clock], asks what is due, and is called again at the next time:
//
//	schedule := windlass.Schedule{Cron: request.Spec.Schedule, TimeZone: request.Spec.TimeZone, Field: "spec.schedule"}
//	due, err := schedule.Due(last, request.Now())
//	if err != nil {
//		return nil, err
//	}
//	if !due.Time.IsZero() {
//		// Return the children for this time, and remember it in the status: it is last in the next call.
//	}
//	response.RequeueAt(due.Next)
//
// A time of the day that the clock skips for daylight saving comes when the clock changes, and one that it repeats comes the first time; a
// schedule whose minutes or hours begin with * follows the clock instead.
type Schedule struct {
	// Cron is the schedule, with the five fields of a Kubernetes CronJob ("0 3 * * *"), or a name such as "@daily".
	Cron string
	// TimeZone is a name of the IANA time zone database ("Europe/Berlin"). An empty one is UTC.
	TimeZone string
	// Field and TimeZoneField are the fields of the parent that have the schedule and the time zone ("spec.schedule"): an error names
	// the one that is wrong. They may be empty.
	Field, TimeZoneField string
}

// Due is what of a schedule is due at a time.
type Due struct {
	// Time is the latest time of the schedule that was reached and not handled yet; the zero time if there is none. Earlier ones are
	// missed for good.
	Time time.Time
	// Next is the next time of the schedule, for [Response.RequeueAt].
	Next time.Time
}

// Next returns the first time after this one, in UTC. The error is [Invalid]: the schedule is malformed or never happens, or the time zone
// is none.
func (s Schedule) Next(after time.Time) (time.Time, error) {
	next, problem := host.ScheduleNext(s.Cron, s.TimeZone, sinceEpoch(after))
	return s.time(next, problem)
}

// Previous returns the last time at or before this one, in UTC; the zero time if there was none since 1970. The error is that of
// [Schedule.Next].
func (s Schedule) Previous(at time.Time) (time.Time, error) {
	previous, exists, problem := host.SchedulePrevious(s.Cron, s.TimeZone, sinceEpoch(at))
	if problem == nil && !exists {
		return time.Time{}, nil
	}
	return s.time(previous, problem)
}

// Due returns what is due now, which is [Request.Now]. last is the time that was handled last, or before the first one the time from
// which the schedule counts, such as the creation of the parent. The error is that of [Schedule.Next].
func (s Schedule) Due(last, now time.Time) (Due, error) {
	previous, err := s.Previous(now)
	if err != nil {
		return Due{}, err
	}
	if !previous.After(last) {
		previous = time.Time{}
	}
	next, err := s.Next(now)
	return Due{previous, next}, err
}

func (s Schedule) time(milliseconds uint64, problem *host.ScheduleProblem) (time.Time, error) {
	switch {
	case problem == nil:
		return time.UnixMilli(int64(milliseconds)).UTC(), nil
	case problem.OfTimeZone:
		return time.Time{}, Invalid(s.TimeZoneField, "%s", problem.Message)
	default:
		return time.Time{}, Invalid(s.Field, "%s", problem.Message)
	}
}

// sinceEpoch is a time in milliseconds since 1970; one before it counts as 1970.
func sinceEpoch(at time.Time) uint64 {
	return uint64(max(0, at.UnixMilli()))
}
