from __future__ import annotations

import itertools
import json
import pickle
import socket
import sys
import unittest
import zoneinfo
from typing import Any
from urllib.error import URLError

from base import Base, Config, Spec, Status, parent, returning

from windlass_plugin import (
    Apply,
    ChildRule,
    Existing,
    Failed,
    Invalid,
    Metric,
    ParentSelector,
    Phase,
    Plugin,
    RelatedRule,
    Request,
    Response,
    Rolling,
    _errors,
    _snapshot,
    clock,
    log,
    measure,
    random_bytes,
    span,
)
from windlass_plugin.kinds import ConfigMap, Deployment, Namespace, Pod, Secret
from windlass_plugin.testing import call, crd, descriptor


class FailureTest(unittest.TestCase):
    def test_a_failure_is_raised_by_the_call(self) -> None:
        for failure in [Invalid("spec.a", "is wrong"), Invalid(None, "is old"), Failed("broken")]:
            with self.assertRaises(type(failure)) as raised:
                call(returning(lambda request, failure=failure: fail(failure)), parent())
            self.assertEqual(str(raised.exception), str(failure))
        self.assertEqual(str(Invalid("spec.a", "is wrong")), "spec.a: is wrong")
        self.assertEqual(str(Invalid(None, "is old")), "is old")
        self.assertEqual(str(pickle.loads(pickle.dumps(Invalid("a", "b")))), "a: b")
        error: Any = ValueError("half: \ud800")
        self.assertEqual([Failed(error).message, str(Failed(error))], ["half: ?"] * 2)

    def test_a_deep_recursion_has_the_ends_of_its_stack(self) -> None:
        def deep() -> None:
            deep()

        try:
            deep()
        except RecursionError as error:
            lines = _errors.stack(error).splitlines()
        self.assertEqual(len(lines), 43)
        self.assertRegex(lines[21], r"^  … \d+ more$")

    def test_no_response_is_an_error(self) -> None:
        with self.assertRaisesRegex(TypeError, "Returned.reconcile returned NoneType, not a Response"):
            call(returning(lambda request: None), parent())

    def test_another_exception_has_a_summary_and_a_stack(self) -> None:
        def raises() -> None:
            try:
                int("x")
            except ValueError as error:
                raise KeyError("y") from error

        try:
            raises()
        except KeyError as error:
            summary, stack = _errors.summary(error), _errors.stack(error)
        self.assertRegex(summary, r"^KeyError: 'y' \(.*test_call\.py:\d+ in raises\)$")
        lines = stack.splitlines()
        self.assertEqual(lines[0], "Traceback (most recent call last):")
        self.assertRegex(lines[1], r"^  .*test_call\.py:\d+ in raises$")
        self.assertEqual(lines[2], "ValueError: invalid literal for int() with base 10: 'x'")
        self.assertIn("The above exception was the direct cause of the following exception:", lines)
        self.assertEqual(lines[-1], "KeyError: 'y'")

    def test_summary_of_what_a_component_does_not_have_says_so(self) -> None:
        for error, cause in [
            (
                ModuleNotFoundError("No module named 'a'"),
                ": a component has the modules that are imported when it is built",
            ),
            (zoneinfo.ZoneInfoNotFoundError("no zone"), ": a component has the time zones of the package tzdata"),
            (LookupError("unknown encoding: cp850"), ": import its module of the package encodings"),
            (FileNotFoundError(2, "No such file"), ": a plugin has no network and no files"),
            (socket.gaierror(-4, "failure in name resolution"), ": a plugin has no network and no files"),
            (
                handling(URLError("no host"), ConnectionRefusedError(111, "refused")),
                ": a plugin has no network and no files",
            ),
            (RuntimeError("can't start new thread"), ": a plugin has no threads"),
        ]:
            self.assertIn(cause, _errors.summary(error))
        for error in [
            KeyError("x"),
            LookupError("unknown"),
            RuntimeError("thread"),
            ValueError("file"),
            TimeoutError("not yet"),
            PermissionError("for admins only"),
            handling(PermissionError("for admins only"), KeyError("x")),
        ]:
            self.assertEqual(_errors.summary(error), f"{type(error).__name__}: {error}")

    def test_summary_of_a_message_of_several_lines_is_one_line(self) -> None:
        self.assertEqual(_errors.summary(ValueError("two faults:\n  a\n\n  b\n")), "ValueError: two faults: a b")

    def test_a_component_has_the_modules_that_functions_import_and_the_time_zones(self) -> None:
        _snapshot.complete()
        loaded = sys.modules.keys()
        self.assertTrue(loaded >= set(_snapshot.MODULES))
        self.assertEqual(len(_snapshot._zones), len(zoneinfo.available_timezones()))


def handling(error: Exception, handled: Exception) -> Exception:
    """Return an error as if it was raised while this one was handled."""
    error.__context__ = handled
    return error


def fail(failure: Exception) -> Response[Status]:
    raise failure


class HostTest(unittest.TestCase):
    def test_calls_of_the_host_are_recorded(self) -> None:
        def respond(request: Request[Spec, Status]) -> Response[Status]:
            log.info("seen", pods=3, ok=True)
            log.error(ValueError("wrong: \ud800"))
            for write in (log.trace, log.debug, log.warn):
                write(7, phase=Phase.RUNNING)
            span.attribute("phase", Phase.RUNNING.value)
            span.event(Phase.RUNNING, count=1)
            measure("pods", 2, phase="Running")
            return Response(
                children=[ConfigMap("a", data={"time": clock.timestamp(), "random": random_bytes(4).hex()})]
            )

        response = call(returning(respond), parent(), at="2026-02-03T04:05:06Z", random=b"\x01\x02\x03\x04\x05")
        self.assertEqual(
            [(line.level, line.message, line.fields) for line in response.logs],
            [
                ("info", "seen", {"pods": "3", "ok": "true"}),
                ("error", "wrong: ?", {}),
                *((level, "7", {"phase": "Running"}) for level in ("trace", "debug", "warn")),
            ],
        )
        self.assertEqual(response.span_attributes, {"phase": "Running"})
        self.assertEqual(response.span_events, ["Running"])
        [measured] = response.measurements
        self.assertEqual((measured.metric, measured.value, measured.labels), ("pods", 2.0, {"phase": "Running"}))
        self.assertEqual(response.children[0]["data"], {"time": "2026-02-03T04:05:06Z", "random": "01020304"})

    def test_two_responses_to_the_same_request_fail_the_test(self) -> None:
        numbers = itertools.count()
        with self.assertRaisesRegex(AssertionError, "the same request has two responses"):
            call(returning(lambda request: Response(children=[Pod(f"pod-{next(numbers)}")])), parent())


class DescriptorTest(unittest.TestCase):
    def test_everything_is_described(self) -> None:
        class Whole(Plugin[None, None]):
            name = "whole"
            version = "1.2.3"
            description = "Does everything"
            parent = Existing(Namespace)
            selector = ParentSelector(labels="a=b", annotations="c")
            children = (Deployment, ConfigMap, ChildRule(Pod, Rolling(["Ready"], recreate=True), optional=True))
            related = (Secret, RelatedRule(Namespace, optional=True))
            finalizes = True
            ordered_deletion = True
            ready_means = "plugin"
            clock = True
            resync = 60
            config = Config
            metrics = (Metric.counter("made", "Objects made", ["kind"]), Metric.gauge("size", "By", "Size"))

            def reconcile(self, request: Request[None, None]) -> Response[None]:
                return Response(children=[ConfigMap(request.parent["data"])])

        whole = descriptor(Whole)
        self.assertIsNone(crd(Whole))
        self.assertEqual((whole.name, whole.version, whole.description), ("whole", "1.2.3", "Does everything"))
        self.assertEqual(
            (whole.parent, whole.selector), (Existing(Namespace), ParentSelector(labels="a=b", annotations="c"))
        )
        rules = [
            ChildRule(Deployment, Apply()),
            ChildRule(ConfigMap, Apply()),
            ChildRule(Pod, Rolling(["Ready"], recreate=True), optional=True),
        ]
        self.assertEqual(whole.children, rules)
        self.assertEqual(whole.related, [RelatedRule(Secret), RelatedRule(Namespace, optional=True)])
        self.assertEqual((whole.finalizes, whole.ordered_deletion, whole.resync), (True, True, 60_000))
        self.assertEqual((whole.ready_means, whole.clock), ("plugin", True))
        plain = descriptor(Base)
        self.assertEqual((plain.ready_means, plain.clock, plain.ordered_deletion), ("children", False, False))
        self.assertEqual(
            json.loads(whole.config_schema or b""),
            {
                "type": "object",
                "properties": {
                    "region": {"type": "string"},
                    "zones": {"type": "integer", "format": "int64", "default": 3},
                },
                "required": ["region"],
            },
        )
        self.assertEqual([metric.type for metric in whole.metrics], ["counter", "gauge"])
        response = call(Whole, {"metadata": {"name": "n"}, "data": "x"})
        self.assertEqual(response.children[0]["metadata"]["name"], "x")
