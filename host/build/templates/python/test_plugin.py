import unittest
from pathlib import Path

from plugin import {{kind}}
from windlass_plugin import Invalid
from windlass_plugin.testing import call, golden

HERE = Path(__file__).parent


class {{kind}}Test(unittest.TestCase):
    def test_responses_are_the_expected_ones(self) -> None:
        """Call the plugin with each file in `cases`, and compare the response with the `….answer.yaml` beside it."""
        golden.check({{kind}}, HERE / "cases")

    def test_crd_json_is_the_crd_of_the_types(self) -> None:
        golden.check_crd({{kind}}, HERE / "crd.json")

    def test_message_of_two_lines_is_invalid(self) -> None:
        with self.assertRaisesRegex(Invalid, "spec.message: must be one line"):
            call({{kind}}, {"metadata": {"name": "hello"}, "spec": {"message": "Hello,\nworld"}})
