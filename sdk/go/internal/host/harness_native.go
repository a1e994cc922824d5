//go:build !wasip1

package host

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Harness asks the host's own code a question, by the program windlass.
func Harness(question []byte) ([]byte, error) {
	command := exec.Command(cmp.Or(os.Getenv("WINDLASS"), "windlass"), "harness")
	command.Stdin = bytes.NewReader(question)
	output, err := command.Output()
	if ended, hasEnded := errors.AsType[*exec.ExitError](err); hasEnded {
		return nil, fmt.Errorf("windlass harness: %w: %s", err, bytes.TrimSpace(ended.Stderr))
	}
	if err != nil {
		return nil, fmt.Errorf("a test needs the program windlass, which checks responses as the host does: "+
			"run cargo install --locked --path host/cli in the repository of Windlass, or set the environment variable WINDLASS to its path (%w)", err)
	}
	return output, nil
}

// ScheduleNext asks for the first time of a schedule after this one.
func ScheduleNext(schedule, timeZone string, after uint64) (uint64, *ScheduleProblem) {
	next, _, problem := scheduled("next", schedule, timeZone, after)
	return next, problem
}

// SchedulePrevious asks for the last time of a schedule until this one, and whether there is one.
func SchedulePrevious(schedule, timeZone string, at uint64) (uint64, bool, *ScheduleProblem) {
	return scheduled("previous", schedule, timeZone, at)
}

// A plugin calls this, so it cannot return why the host cannot be asked: the test panics with it.
func scheduled(question, schedule, timeZone string, at uint64) (uint64, bool, *ScheduleProblem) {
	asked, err := json.Marshal(map[string]any{question: map[string]any{"schedule": schedule, "timeZone": timeZone, "time": at}})
	if err != nil {
		panic(err)
	}
	output, err := Harness(asked)
	if err != nil {
		panic(err)
	}
	var answer struct {
		Time               *uint64
		Schedule, TimeZone string
	}
	if err := json.Unmarshal(output, &answer); err != nil {
		panic(fmt.Errorf("windlass harness: %w", err))
	}
	if message := answer.Schedule + answer.TimeZone; message != "" {
		return 0, false, &ScheduleProblem{Message: message, OfTimeZone: answer.TimeZone != ""}
	}
	if answer.Time == nil {
		return 0, false, nil
	}
	return *answer.Time, true, nil
}
