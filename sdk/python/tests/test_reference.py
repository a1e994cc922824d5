from __future__ import annotations

import typing
import unittest
import warnings

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


def show_signatures(of: pdoc.doc.Namespace[typing.Any]) -> None:
    """Write the signatures in a module or class, as the reference does."""
    for name, member in of.members.items():
        if isinstance(member, pdoc.doc.Class):
            show_signatures(member)
        elif isinstance(member, pdoc.doc.Function) and (name == "__init__" or not name.startswith("_")):
            str(member.signature)


class ReferenceTest(unittest.TestCase):
    def test_every_public_name_has_a_docstring(self) -> None:
        for name in MODULES:
            module = pdoc.doc.Module.from_name(f"windlass_plugin{name}")
            with self.subTest(module.fullname):
                self.assertTrue(module.docstring)
                self.assertEqual(list(undocumented(module)), [])

    def test_every_type_in_a_signature_is_found(self) -> None:
        for name in MODULES:
            module = pdoc.doc.Module.from_name(f"windlass_plugin{name}")
            with self.subTest(module.fullname), warnings.catch_warnings():
                warnings.simplefilter("error")
                show_signatures(module)
