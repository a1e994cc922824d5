"""The golden cases of Echo, without WebAssembly and without a cluster. The host's tests run them with the component."""

import unittest
from pathlib import Path

from echo import Echo
from windlass_plugin.testing import golden

ECHO = Path(__file__).parent.parent


class EchoTest(unittest.TestCase):
    def test_responses_are_the_expected_ones(self) -> None:
        golden.check(Echo, ECHO / "cases", shared=True)

    def test_crd_json_is_the_crd_of_the_types(self) -> None:
        golden.check_crd(Echo, ECHO / "crd.json")


if __name__ == "__main__":
    unittest.main()
