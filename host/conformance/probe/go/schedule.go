package main

import (
	"time"

	windlass "windlass.dev/plugin"
)

// A schedule, and what is asked about it.
type Schedule struct {
	// As in a CronJob.
	Cron string `json:"cron"`
	// As in a CronJob.
	TimeZone string `json:"timeZone" default:""`
	// The time of the question.
	At time.Time `json:"at"`
	// The time that was handled last.
	Last *time.Time `json:"last"`
}

// Times of a schedule.
type Scheduled struct {
	// The first one after the time of the question.
	Next string `json:"next"`
	// The last one until then.
	Previous string `json:"previous,omitempty"`
	// The one that was not handled yet.
	Due string `json:"due,omitempty"`
}

func scheduled(spec *Schedule) (*Scheduled, error) {
	schedule := windlass.Schedule{
		Cron: spec.Cron, TimeZone: spec.TimeZone, Field: "spec.schedule.cron", TimeZoneField: "spec.schedule.timeZone",
	}
	next, err := schedule.Next(spec.At)
	if err != nil {
		return nil, err
	}
	previous, err := schedule.Previous(spec.At)
	if err != nil {
		return nil, err
	}
	scheduled := &Scheduled{Next: windlass.Timestamp(next), Previous: timestamp(previous)}
	if spec.Last != nil {
		due, err := schedule.Due(*spec.Last, spec.At)
		if err != nil {
			return nil, err
		}
		scheduled.Due = timestamp(due.Time)
	}
	return scheduled, nil
}

// timestamp is a time as Kubernetes writes it; empty for the zero time.
func timestamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return windlass.Timestamp(at)
}
