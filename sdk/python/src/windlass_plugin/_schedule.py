"""Times of cron schedules in time zones, which the host computes."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timezone

from . import _host
from ._failure import Invalid, milliseconds


@dataclasses.dataclass(frozen=True)
class Due:
    """What of a schedule is due at a time."""

    time: datetime | None
    """The latest time of the schedule that was reached and not handled yet; None if there is none.

    Earlier ones are missed for good.
    """

    next: datetime
    """The next time of the schedule, for `Response(requeue_at=…)`."""


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A cron schedule in a time zone.

    A plugin that does something at times of a schedule has `clock = True`, asks what is due, and is called again at the
    next time:

        schedule = Schedule(request.spec.schedule, request.spec.time_zone, field="spec.schedule")
        due = schedule.due(last=last, now=request.now)
        if due.time is not None:
            ...  # Return the children for this time, and remember it in the status: it is `last` in the next call.
        return Response(children=children, requeue_at=due.next)

    A time of the day that the clock skips for daylight saving comes when the clock changes, and one that it repeats comes
    the first time; a schedule whose minutes or hours begin with `*` follows the clock instead.

    All methods raise `Invalid` if the schedule is malformed or never happens, or if the time zone is none.
    """

    cron: str
    """The five fields of a Kubernetes CronJob, such as `0 3 * * *`, or a name such as `@daily`."""

    time_zone: str | None = None
    """A name of the IANA time zone database, such as `Europe/Berlin`. None or empty: UTC."""

    _: dataclasses.KW_ONLY

    field: str | None = None
    """The field of the parent that has the schedule, such as `spec.schedule`: the failure about a wrong one names it."""

    time_zone_field: str | None = None
    """The field of the parent that has the time zone."""

    def next(self, after: datetime) -> datetime:
        """Return the first time after this one, in UTC."""
        try:
            return _time(_host.current.schedule_next(*self._texts(), _since_epoch(after)))
        except _host.ScheduleProblem as problem:
            raise self._invalid(problem) from None

    def previous(self, at: datetime) -> datetime | None:
        """Return the last time at or before this one, in UTC; None if there was none since 1970."""
        try:
            previous = _host.current.schedule_previous(*self._texts(), _since_epoch(at))
        except _host.ScheduleProblem as problem:
            raise self._invalid(problem) from None
        return None if previous is None else _time(previous)

    def due(self, *, last: datetime, now: datetime) -> Due:
        """Return what is due now, which is `Request.now`.

        `last` is the time that was handled last, or before the first one the time from which the schedule counts, such as the
        creation of the parent.
        """
        previous = self.previous(now)
        return Due(previous if previous is not None and previous > last else None, self.next(now))

    def _texts(self) -> tuple[str, str]:
        return _host.text(self.cron), _host.text(self.time_zone or "")

    def _invalid(self, problem: _host.ScheduleProblem) -> Invalid:
        return Invalid(self.time_zone_field if problem.is_of_time_zone else self.field, problem.message)


def _since_epoch(time: datetime) -> int:
    if time.tzinfo is None:
        raise ValueError(f"{time!r} has no time zone: it names no point in time")
    return milliseconds(time.timestamp())


def _time(since_epoch: int) -> datetime:
    return datetime.fromtimestamp(since_epoch / 1000, timezone.utc)
