"""The published schema (JSON Schema 2020-12, `craze/wire/schema/*.json`) and its validators.

For tests, conformance runs and clients that want to check a peer: nothing that serves imports this,
since jsonschema is heavy. References resolve among the published files alone; nothing is ever
fetched. Validation is stricter than jsonschema's own in three ways that JSON asks for: 1.0 is no
integer, NaN and infinities are no numbers, and a pattern's `$` is the text's very end.
"""

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

import jsonschema  # type: ignore[import-untyped]
from jsonschema import Draft202012Validator, ValidationError, validators
from referencing import Registry, Resource
from referencing.exceptions import NoSuchResource

BASE: Final = "https://craze.invalid/protocol/1/"

Schema = dict[str, Any]


def check_request(method: str, params: Any) -> None:
    """Raises jsonschema.ValidationError where `params` are none of `method`'s, KeyError for a
    method the schema lacks."""
    validator(method, "params").validate(params)


def check_result(method: str, result: Any) -> None:
    """As `check_request`, for what answers `method`."""
    validator(method, "result").validate(result)


def check_notification(method: str, params: Any) -> None:
    """As `check_request`, for a notification's params."""
    validator(f"notify.{method}").validate(params)


def check_line(line: Any, method_of: Mapping[Any, str]) -> None:
    """Check one line of protocol 1, either direction; `method_of` says what each id asked for.

    Raises jsonschema.ValidationError, KeyError for a method the schema lacks or an id that asked
    for nothing.
    """
    _LINE.validate(line)
    if "method" in line:
        check = check_request if "id" in line else check_notification
        check(line["method"], line.get("params", {}))
    elif "error" in line:
        validator("error").validate(line["error"])
    else:
        check_result(method_of[line["id"]], line["result"])


@cache
def documents() -> dict[str, Schema]:
    """Every published schema by its name."""
    found = {}
    for file in files("craze.wire").joinpath("schema").iterdir():
        name = file.name.removesuffix(".json")
        if name != file.name:
            found[name] = json.loads(file.read_text(encoding="utf-8"))
    return found


@cache
def validator(name: str, part: str = "") -> jsonschema.protocols.Validator:
    """The validator of the schema `name`, or of one `part` of its `$defs`. Raises KeyError."""
    definitions = documents()[name].get("$defs", {})
    if part and part not in definitions:
        raise KeyError(f"{name} has no {part}")
    where = f"{BASE}{name}.json" + (f"#/$defs/{part}" if part else "")
    return _STRICT({"$ref": where}, registry=_registry())


def _nowhere(uri: str) -> Any:
    raise NoSuchResource(uri)


@cache
def _registry() -> Registry[Any]:
    resources = (Resource.from_contents(schema) for schema in documents().values())
    registry: Registry[Any] = Registry(retrieve=_nowhere)  # type: ignore[call-arg]
    return registry.with_resources((resource.id() or "", resource) for resource in resources)


def _is_integer(_: Any, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(_: Any, value: Any) -> bool:
    return _is_integer(_, value) or (isinstance(value, float) and math.isfinite(value))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    if pattern.endswith("$"):  # which in Python also matches before a last newline
        pattern = pattern[:-1] + r"\Z"
    return re.compile(pattern)


def _pattern(_: Any, pattern: str, value: Any, schema: Schema) -> Any:
    if isinstance(value, str) and not _compiled(pattern).search(value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


_STRICT: Any = validators.extend(
    Draft202012Validator,
    {"pattern": _pattern},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine_many(
        {"integer": _is_integer, "number": _is_number}
    ),
)

_ID: Final[Schema] = {"type": ["number", "string"]}
_VERSION: Final[Schema] = {"const": "2.0"}
_LINE: Any = _STRICT(
    {
        "type": "object",
        "oneOf": [
            {
                "properties": {
                    "jsonrpc": _VERSION,
                    "id": _ID,
                    "method": {"type": "string", "minLength": 1},
                    "params": {"type": "object"},
                },
                "required": ["jsonrpc", "method"],
                "additionalProperties": False,
            },
            {
                "properties": {"jsonrpc": _VERSION, "id": _ID, "result": {"type": "object"}},
                "required": ["jsonrpc", "id", "result"],
                "additionalProperties": False,
            },
            {
                "properties": {
                    "jsonrpc": _VERSION,
                    "id": {"type": ["number", "string", "null"]},
                    "error": {"type": "object"},
                },
                "required": ["jsonrpc", "id", "error"],
                "additionalProperties": False,
            },
        ],
    }
)
