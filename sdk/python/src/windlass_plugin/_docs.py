"""The texts for `kubectl explain`: docstrings of classes, and texts below fields."""

from __future__ import annotations

import ast
import inspect
import itertools
import sys


def of_class(cls: type) -> str | None:
    """Return the docstring of a class, unless the class has none of its own."""
    text = cls.__dict__.get("__doc__")
    # A dataclass without a docstring gets its signature.
    if not text or text.startswith(f"{cls.__name__}("):
        return None
    return _flowing(text)


def of_fields(cls: type) -> dict[str, str]:
    """Return the texts below the fields of a class and its bases."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        node = _node(base)
        for statement, below in itertools.pairwise(node.body if node else []):
            if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
                continue
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                text = below.value.value
                if isinstance(text, str):
                    texts[statement.target.id] = _flowing(text)
    return texts


def _flowing(text: str) -> str:
    """Join the lines of each paragraph."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)


def _node(cls: type) -> ast.ClassDef | None:
    body = _module(cls.__module__)
    found: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | None = None
    for name in cls.__qualname__.split("."):
        if name == "<locals>":
            continue
        named = (
            node
            for statement in body
            for node in ast.walk(statement)
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name
        )
        found = next(named, None)
        if found is None:
            return None
        body = found.body
    return found if isinstance(found, ast.ClassDef) else None


_modules: dict[str, list[ast.stmt]] = {}


def _module(name: str) -> list[ast.stmt]:
    body = _modules.get(name)
    if body is None:
        body = _modules[name] = _parsed(name)
    return body


def _parsed(name: str) -> list[ast.stmt]:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    loader = getattr(spec, "loader", None) or getattr(sys.modules.get(name), "__loader__", None)
    # Modules of the interpreter have no source.
    get_source = getattr(loader, "get_source", None)
    try:
        source = get_source(name) if get_source else None
    except (ImportError, OSError):
        source = None
    return ast.parse(source).body if source else []


def forget() -> None:
    """Free the parsed modules."""
    _modules.clear()
