package windlass_test

import (
	"strings"
	"testing"
	"time"

	windlass "windlass.dev/plugin"
)

// at is a minute of 29 March 2026 in UTC; at 01:00, the clocks of Berlin skip an hour.
func at(minute int) time.Time {
	return time.Date(2026, time.March, 29, 0, minute, 0, 0, time.UTC)
}

func TestLatestTimeThatWasMissedIsDueUntilItIsHandled(t *testing.T) {
	schedule := windlass.Schedule{Cron: "*/10 * * * *"}
	for _, one := range []struct{ last, now, due, next int }{{4, 9, -1, 10}, {4, 10, 10, 20}, {4, 35, 30, 40}, {30, 35, -1, 40}} {
		due, err := schedule.Due(at(one.last), at(one.now))
		expected := windlass.Due{Next: at(one.next)}
		if one.due >= 0 {
			expected.Time = at(one.due)
		}
		if err != nil || due != expected {
			t.Errorf("%+v: %v, %v", one, due, err)
		}
	}
}

func TestTimeThatTheClockOfTheZoneSkipsComesWhenItChanges(t *testing.T) {
	schedule := windlass.Schedule{Cron: "30 2 * * *", TimeZone: "Europe/Berlin"}
	if next, err := schedule.Next(at(59)); err != nil || !next.Equal(at(60)) {
		t.Error(next, err)
	}
	if previous, err := schedule.Previous(at(60)); err != nil || !previous.Equal(at(60)) {
		t.Error(previous, err)
	}
	if none, err := schedule.Previous(time.Time{}); err != nil || !none.IsZero() {
		t.Error("a time before 1970:", none, err)
	}
}

func TestWrongScheduleOrTimeZoneIsInvalidWithItsField(t *testing.T) {
	for beginning, schedule := range map[string]windlass.Schedule{
		`spec.schedule: hour "25" in the schedule "0 25 * * *" `: {Cron: "0 25 * * *"},
		`spec.timeZone: "Berlin" is not a time zone: write `:     {Cron: "@daily", TimeZone: "Berlin"},
	} {
		schedule.Field, schedule.TimeZoneField = "spec.schedule", "spec.timeZone"
		_, err := schedule.Due(at(0), at(0))
		if !windlass.IsInvalid(err) || !strings.HasPrefix(err.Error(), beginning) {
			t.Error(err)
		}
	}
}
