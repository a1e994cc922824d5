import unittest

from windlass_plugin import Quantity, Rollout
from windlass_plugin._contract import Observed
from windlass_plugin._request import Object
from windlass_plugin.testing import _Observed


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


def rollout(observed: int, counts: "list[int]", *conditions: "dict[str, str]") -> Rollout:
    names = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]
    status = {"observedGeneration": observed, "conditions": list(conditions), **dict(zip(names, counts, strict=True))}
    deployment: Observed = _Observed({"metadata": {"generation": 2}, "spec": {"replicas": 3}, "status": status})
    return Rollout.of(Object(deployment))


class RolloutTest(unittest.TestCase):
    def test_a_new_deployment_is_progressing(self) -> None:
        new = Rollout.of(Object(_Observed({"metadata": {"generation": 1}, "spec": {}})))
        self.assertEqual((new.desired, new.replicas, new.state, new.is_outdated), (1, 0, "Progressing", True))
        self.assertEqual(Rollout.of(None), Rollout())

    def test_a_rollout_is_complete_when_exactly_the_desired_pods_are_available(self) -> None:
        self.assertEqual(rollout(2, [3, 3, 3, 3]).state, "Complete")
        for counts in [[4, 3, 3, 3], [3, 2, 3, 3], [3, 3, 2, 2], [3, 3, 3, 2]]:
            self.assertEqual(rollout(2, counts).state, "Progressing", counts)

    def test_a_failed_rollout_has_the_message_of_its_condition_unless_it_is_outdated(self) -> None:
        for type_, status, reason in [
            ("Progressing", "False", "ProgressDeadlineExceeded"),
            ("ReplicaFailure", "True", "FailedCreate"),
        ]:
            condition = {"type": type_, "status": status, "reason": reason, "message": "quota"}
            failed = rollout(2, [0, 0, 0, 0], condition)
            self.assertEqual((failed.state, failed.message(3)), ("Failed", "0/3 replicas ready: quota"))
            self.assertEqual(rollout(1, [3, 3, 3, 3], condition).state, "Progressing")
