import dataclasses
import json
import pathlib
import unittest

from windlass_plugin import Quantity, Rollout
from windlass_plugin._request import Object
from windlass_plugin.testing import Live


class QuantityTest(unittest.TestCase):
    def test_every_notation_is_read(self) -> None:
        for text, same in [
            ("1.5Gi", "1536Mi"),
            (".5", "500m"),
            ("5.", "5"),
            ("+2", "2"),
            ("1e3", "1k"),
            ("1E3", "1k"),
            ("1e-3", "1m"),
            ("1E+2", "100"),
            ("0100", "100"),
            ("0.1Ki", "102.4"),
            ("1E", "1000P"),
            ("1Ei", "1024Pi"),
            ("1000n", "1u"),
            ("1000T", "1P"),
            ("1000M", "1G"),
        ]:
            self.assertEqual(Quantity(text), Quantity(same), text)
            self.assertEqual(str(Quantity(text)), text)

    def test_other_text_is_not_a_quantity(self) -> None:
        for text in [
            "",
            ".",
            "-",
            "1.2.3",
            "1 Gi",
            "Gi",
            "1gi",
            "1K",
            "1e",
            "1ee3",
            "1e1.5",
            "one",
            "1Mi ",
            "--1",
            "1e999",
        ]:
            with self.assertRaisesRegex(ValueError, "is not a quantity like 100m, 2 or 128Mi"):
                Quantity(text)

    def test_a_fraction_of_a_billionth_is_rounded_away_from_zero_and_the_largest_value_is_the_api_servers(self) -> None:
        self.assertEqual(Quantity("0.1n"), Quantity("1n"))
        self.assertEqual(Quantity("-0.1n"), Quantity("-1n"))
        self.assertEqual(Quantity("16Ei"), Quantity("9223372036854775807"))

    def test_quantities_are_compared_by_value(self) -> None:
        self.assertLess(Quantity("1536Mi"), Quantity("2Gi"))
        self.assertGreaterEqual(Quantity("1"), Quantity("1000m"))
        self.assertEqual(len({Quantity("1"), Quantity("1000m")}), 1)
        self.assertEqual(float(Quantity("1.5Ki")), 1536.0)
        self.assertEqual([Quantity(text).is_positive for text in ("1n", "0", "-1")], [True, False, False])
        self.assertEqual((bool(Quantity("0")), repr(Quantity("1Gi"))), (False, "Quantity('1Gi')"))
        self.assertNotEqual(Quantity("1"), 1)


class RolloutTest(unittest.TestCase):
    def test_rollouts_are_those_that_every_sdk_sees(self) -> None:
        cases = pathlib.Path(__file__).parents[3] / "host/conformance/rollouts.json"
        for case in json.loads(cases.read_text(encoding="utf-8")):
            seen = dataclasses.asdict(Rollout.of(Object(Live(case["object"], "unknown"))))
            seen["isOutdated"] = seen.pop("is_outdated")
            self.assertEqual(seen, case["rollout"], case["description"])

    def test_an_object_that_does_not_exist_is_progressing(self) -> None:
        self.assertEqual(Rollout.of(None), Rollout())

    def test_the_message_counts_ready_pods_and_ends_with_the_failure(self) -> None:
        self.assertEqual(Rollout(ready=2, state="Progressing").message(3), "2/3 replicas ready")
        self.assertEqual(Rollout(ready=2, state="Failed", failure="quota").message(3), "2/3 replicas ready: quota")
