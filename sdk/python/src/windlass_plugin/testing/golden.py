"""Golden cases: a folder of requests, and beside each the expected response. It needs PyYAML (`windlass-plugin[testing]`).

`scale-up.yaml` is a request: a parent and what exists.

    description: The second Pod is missing
    parent: {metadata: {name: web}, spec: {replicas: 2, image: nginx}}
    children:            # live ones; optional, as the fields below
      - {apiVersion: v1, kind: Pod, metadata: {name: web-0}}

Others are `related` (objects by requirement), `kinds` (the optional ones that exist; by default all), `config`,
`closedNamespaces`, `at` (the time), and for a clean-up `finalize`, `cause` (`deleted`, `leftSelector`, `leftNamespaces`) and
`namespaceTerminating`.

`scale-up.answer.yaml` is the response. With `UPDATE_EXPECT=1` in the environment the test writes it, for review.
"""

from __future__ import annotations

import difflib
import json
import os
import pathlib
import re
import typing

import yaml

from .. import _plugin
from .._failure import Failure, Invalid
from .._json import Json, decode, encode
from ..kinds import Kind
from . import Refused, _written, call
from . import crd as crd_of


def check(plugin: type[_plugin.AnyPlugin], folder: str | os.PathLike[str], *, shared: bool = False) -> None:
    """Call the plugin with every case of a folder, and compare the responses with the expected ones.

    A folder that plugins in several languages share is `shared`: of an invalid spec, only the field is compared, as each
    language says in its own words what is wrong. Raises `AssertionError` with the differences.
    """
    wrong = [difference for case in cases(folder) if (difference := _difference(plugin, case, shared=shared))]
    if wrong:
        raise AssertionError("\n".join([*wrong, "UPDATE_EXPECT=1 writes the responses of this plugin."]))


def check_crd(plugin: type[_plugin.AnyPlugin], file: str | os.PathLike[str]) -> None:
    """Compare the CRD of the plugin's types with a file. Raises `AssertionError` with the differences."""
    path = pathlib.Path(file)
    crd = crd_of(plugin)
    if _read(path, json.loads) == crd:
        return
    text = json.dumps(crd, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if _updates():
        path.write_text(text, encoding="utf-8")
        return
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    raise AssertionError(_diff(str(path), before, text) + "\nUPDATE_EXPECT=1 writes the file.")


def cases(folder: str | os.PathLike[str]) -> list[pathlib.Path]:
    """Return the requests in a folder, in the order of their names.

    Raises `AssertionError` if there is none, and for a response without a request.
    """
    files = sorted(pathlib.Path(folder).glob("*.yaml"))
    requests = [file for file in files if not file.name.endswith(_ANSWER)]
    if not requests:
        raise AssertionError(f"{folder} has no cases")
    for response in set(files) - set(requests):
        if response.with_name(response.name.removesuffix(_ANSWER) + ".yaml") not in requests:
            raise AssertionError(f"{response} has no request")
    return requests


_ANSWER = ".answer.yaml"
_RENAMED = {"namespaceTerminating": "is_namespace_terminating", "closedNamespaces": "closed_namespaces"}
"""Fields of a case, and what `call` calls them. It has the same names for the others."""
_FIELDS = {"description", "parent", "children", "related", "kinds", "config", "finalize", "cause", "at", *_RENAMED}
_CAUSES = {"deleted": "deleted", "leftSelector": "left-selector", "leftNamespaces": "left-namespaces"}


def _difference(plugin: type[_plugin.AnyPlugin], request: pathlib.Path, *, shared: bool) -> str | None:
    case = _read(request, _load)
    if not isinstance(case, dict) or set(case) - _FIELDS or not {"description", "parent"} <= set(case):
        raise AssertionError(f"{request}: a case has `description`, `parent` and others of {sorted(_FIELDS)}")
    if case.get("cause", "deleted") not in _CAUSES:
        raise AssertionError(f"{request}: the cause is none of {', '.join(_CAUSES)}")
    del case["description"]
    file = request.with_name(request.stem + _ANSWER)
    expected = _read(file, _load)
    try:
        actual = _document(plugin, case)
    except Refused as refused:
        raise Refused(f"{request}: {refused}") from None
    if actual == expected or (shared and _field(actual) == _field(expected)):
        return None
    if _updates():
        file.write_text(_dump(actual), encoding="utf-8")
        return None
    return _diff(str(file), "" if expected is None else _dump(expected), _dump(actual))


def _document(plugin: type[_plugin.AnyPlugin], case: dict[str, Json]) -> dict[str, Json]:
    """Return the response for review, without empty fields."""
    parent = case.pop("parent")
    arguments = {_RENAMED.get(name, name): value for name, value in case.items()}
    if "cause" in arguments:
        arguments["cause"] = _CAUSES[arguments["cause"]]
    if "kinds" in arguments:
        arguments["kinds"] = [Kind(kind["apiVersion"], kind["kind"]) for kind in arguments["kinds"]]
    try:
        response = call(plugin, parent, **arguments)
    except Invalid as failure:
        return {"invalid": str(failure)}
    except Failure as failure:
        return {"failed": failure.message}
    document = decode(encode(_written.response(response.raw)))
    # Without options, the list has an empty one for each child.
    document["options"] = document["options"] if any(document["options"]) else []
    document |= {
        "logs": [line.message for line in response.logs],
        "spanAttributes": response.span_attributes,
        "spanEvents": response.span_events,
        "measurements": [
            {"metric": one.metric, "value": one.value, "labels": one.labels} for one in response.measurements
        ],
    }
    return {name: value for name, value in document.items() if value is not False and value not in ([], {})}


def _field(document: Json) -> Json:
    """Return a failure `invalid` with the field alone, and other documents as they are."""
    if isinstance(document, dict) and "invalid" in document:
        return {"invalid": document["invalid"].split(": ")[0]}
    return document


def _updates() -> bool:
    return bool(os.environ.get("UPDATE_EXPECT"))


def _diff(file: str, expected: str, actual: str) -> str:
    lines = difflib.unified_diff(expected.splitlines(), actual.splitlines(), file, "actual", lineterm="")
    return "\n".join(lines)


def _read(file: pathlib.Path, parse: typing.Callable[[str], Json]) -> Json:
    if not file.exists():
        return None
    try:
        return parse(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise AssertionError(f"{file}: {error}") from error
    except yaml.YAMLError as error:
        raise AssertionError(f"{file}: {error}") from error


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML 1.2, as Kubernetes' own tools write it: `on` and `12:30` are texts, and so are times."""

    yaml_implicit_resolvers: typing.ClassVar[dict[str, Json]] = {}


_RESOLVERS = [
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
]

for _tag, _pattern, _first in _RESOLVERS:
    _firsts = [character if character != "\0" else "" for character in _first]
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), _firsts)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(loader.construct_scalar(node)))
_Loader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(loader.construct_scalar(node)))


def _load(text: str) -> Json:
    return yaml.load(text, _Loader)


def _dump(document: Json) -> str:
    text: str = yaml.safe_dump(document, allow_unicode=True, width=1000)
    return text
