"""Schedules: the host computes their times, in a test by the program `windlass`."""

from __future__ import annotations

import dataclasses
import unittest
from datetime import datetime, timedelta, timezone
from typing import Any

from windlass_plugin import CustomResource, Due, Invalid, Plugin, Request, Response, Schedule
from windlass_plugin.testing import call

START = datetime(2026, 3, 29, tzinfo=timezone.utc)


@dataclasses.dataclass
class Spec:
    schedule: str
    time_zone: str = ""
    last: int = 0


@dataclasses.dataclass
class Status:
    due: str
    next: str


class Nightly(Plugin[Spec, Status]):
    name = "nightly"
    version = "1.0.0"
    parent = CustomResource("example.com", "v1", "Nightly")
    clock = True

    def reconcile(self, request: Request[Spec, Status]) -> Response[Status]:
        spec = request.spec
        schedule = Schedule(spec.schedule, spec.time_zone, field="spec.schedule", time_zone_field="spec.timeZone")
        due = schedule.due(last=START + timedelta(minutes=spec.last), now=request.now)
        return Response(status=Status(str(due.time), str(due.next)), requeue_at=due.next)


def due(now: str, **spec: Any) -> tuple[str, str]:
    """The times of the plugin, called at this one."""
    response = call(Nightly, {"metadata": {"name": "a"}, "spec": spec}, at=now)
    assert response.status is not None
    assert str(response.requeue_at) == response.status["next"]
    return response.status["due"], response.status["next"]


class TestSchedule(unittest.TestCase):
    def test_the_latest_time_that_was_missed_is_due_until_it_is_handled(self) -> None:
        every_ten_minutes = {"schedule": "*/10 * * * *"}
        at_20 = "2026-03-29 00:20:00+00:00"
        self.assertEqual(due("2026-03-29T00:10:00Z", **every_ten_minutes), ("2026-03-29 00:10:00+00:00", at_20))
        self.assertEqual(due("2026-03-29T00:09:00Z", **every_ten_minutes)[0], "None")
        self.assertEqual(due("2026-03-29T00:29:59Z", **every_ten_minutes)[0], at_20)
        self.assertEqual(due("2026-03-29T00:29:59Z", **every_ten_minutes, last=20)[0], "None")

    def test_a_time_that_the_clock_of_the_zone_skips_comes_when_it_changes(self) -> None:
        nightly = {"schedule": "30 2 * * *", "timeZone": "Europe/Berlin"}
        change, day_after = "2026-03-29 01:00:00+00:00", "2026-03-30 00:30:00+00:00"
        self.assertEqual(due("2026-03-29T00:59:00Z", **nightly), ("None", change))
        self.assertEqual(due("2026-03-29T01:00:00Z", **nightly), (change, day_after))

    def test_a_wrong_schedule_or_time_zone_is_invalid_with_its_field(self) -> None:
        for spec, problem in [
            ({"schedule": "0 25 * * *"}, r'^spec\.schedule: hour "25" in the schedule "0 25 \* \* \*" '),
            ({"schedule": "@daily", "timeZone": "Berlin"}, r'^spec\.timeZone: "Berlin" is not a time zone: write '),
        ]:
            with self.assertRaisesRegex(Invalid, problem):
                due("2026-03-29T00:00:00Z", **spec)

    def test_a_time_without_a_zone_is_a_mistake_and_so_is_a_schedule_without_a_host(self) -> None:
        with self.assertRaisesRegex(ValueError, "no time zone"):
            Schedule("@daily").next(datetime(2026, 1, 1))
        with self.assertRaisesRegex(RuntimeError, r"testing\.call"):
            Schedule("@daily").due(last=START, now=START)
        self.assertEqual(Due(None, START).next, START)


if __name__ == "__main__":
    unittest.main()
