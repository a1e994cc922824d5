from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SDK = pathlib.Path(__file__).parent.parent


class ReadmeTest(unittest.TestCase):
    def test_the_plugin_of_the_readme_passes_its_tests(self) -> None:
        readme = (SDK / "README.md").read_text(encoding="utf-8")
        files = dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", readme, re.DOTALL))
        self.assertEqual(set(files), {"greeting.py", "test_greeting.py"})
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                pathlib.Path(folder, name).write_text(text, encoding="utf-8")
            environment = {**os.environ, "PYTHONPATH": str(SDK / "src")}
            command = [sys.executable, "-m", "unittest"]
            ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("Ran 2 tests", ran.stderr)
