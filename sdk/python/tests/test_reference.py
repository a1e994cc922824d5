from __future__ import annotations

import typing
import unittest

import pdoc.doc

# The package, and the modules that a plugin imports from it.
MODULES = ["", ".admission", ".clock", ".kinds", ".log", ".span", ".testing", ".testing.golden", ".types"]


def undocumented(of: pdoc.doc.Namespace[typing.Any]) -> typing.Iterator[str]:
    """Yield the public names in a module or class that have no docstring."""
    for name, member in of.members.items():
        # What a special method does is said at its class. What a class has from the standard library is documented there.
        if name.startswith("_") or not member.taken_from[0].startswith("windlass_plugin"):
            continue
        if not member.docstring.strip():
            yield member.fullname
        if isinstance(member, pdoc.doc.Class):
            yield from undocumented(member)


class ReferenceTest(unittest.TestCase):
    def test_every_public_name_has_a_docstring(self) -> None:
        for name in MODULES:
            module = pdoc.doc.Module.from_name(f"windlass_plugin{name}")
            with self.subTest(module.fullname):
                self.assertTrue(module.docstring)
                self.assertEqual(list(undocumented(module)), [])
