"""How the contract's values are read from parsed JSON and written to it.

A value type is a frozen dataclass derived from `Document`, and its annotations are its table: they
say what each key may hold, in the order the keys are written. Three ways of reading exist. A
tolerant document ignores keys it does not know; a strict one, which is for what a client asks,
refuses them; a forgiving one takes a member's default for whatever cannot be read. Nothing here
parses text, and nothing knows a particular document.
"""

import functools
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from craze.wire import json

D = TypeVar("D", bound="Document")
Read = Callable[[Any], Any]

# How a document is read.
TOLERANT: Final = "tolerant"
STRICT: Final = "strict"
FORGIVING: Final = "forgiving"


class ContractError(ValueError):
    """A value that is not what the contract says: `problem` tells what was expected and what came,
    `path` where in the document."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.problem = problem
        self.path = path

    def under(self, step: str) -> "ContractError":
        """The same failure, seen from what holds the value."""
        return ContractError(self.problem, step + self.path)


class Document:
    """A value of the contract. Absent members are None and are not written."""

    __slots__ = ()
    reading: ClassVar[str] = TOLERANT
    # Whether what is no object at all reads as the document with every member at its default.
    reads_anything: ClassVar[bool] = False

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """The document in `value`, parsed JSON. Raises ContractError, which is a ValueError."""
        try:
            return read(cls, value)
        except ContractError as failure:
            raise failure.under(cls.__name__) from None

    def to_wire(self) -> dict[str, Any]:
        """The document as JSON's objects, keys in the contract's order. Raises ContractError where
        a strict document holds what its reader would refuse."""
        made = _written(self)
        if self.reading is STRICT:
            self.from_wire(made)
        return made


class Variant(Document):
    """One of several documents that share a place; `kind` on the wire says which."""

    __slots__ = ()
    kind: ClassVar[str] = ""

    def to_wire(self) -> dict[str, Any]:
        return {"kind": self.kind, **Document.to_wire(self)}


V = TypeVar("V", bound=Variant)


def variants(*classes: type[V]) -> dict[str, type[V]]:
    """The classes of one place by their `kind`."""
    return {one.kind: one for one in classes}


def read_variant(
    name: str, classes: Mapping[str, type[V]], value: object, unknown: V | None = None
) -> V:
    """The variant in `value`. A kind that is not in `classes` reads as `unknown`, or is refused
    where there is none. Raises ContractError; `name` is what it calls the value."""
    if not isinstance(value, Mapping):
        raise ContractError(f"expected an object, got {kind_of(value)}", name)
    if "kind" not in value:
        raise ContractError("missing", f"{name}.kind")
    try:
        kind = string(value["kind"])
    except ContractError as failure:
        raise failure.under(f"{name}.kind") from None
    if kind not in classes:
        if unknown is not None:
            return unknown
        raise ContractError(f"expected one of {', '.join(classes)}, got {kind}", f"{name}.kind")
    return classes[kind].from_wire(value)


def read(cls: type[D], value: object) -> D:
    """As `from_wire`, with failures whose path begins inside the document."""
    if not isinstance(value, Mapping):
        if cls.reads_anything:
            return cls()
        raise ContractError(f"expected an object, got {kind_of(value)}")
    members = _members(cls)
    if cls.reading is STRICT:
        known = {"kind", *members} if issubclass(cls, Variant) else members.keys()
        unknown = next((name for name in value if name not in known), None)
        if unknown is not None:
            raise ContractError("unknown field", f".{unknown}")
    made: dict[str, Any] = {}
    for name, member in members.items():
        if name in value:
            try:
                made[name] = member.read(value[name])
            except ContractError as failure:
                if cls.reading is not FORGIVING:
                    raise failure.under(f".{name}") from None
        elif member.required:
            raise ContractError("missing", f".{name}")
    return cls(**made)


# ---- how members are declared ----


def required(default: Any) -> Any:
    """A member that must be there on the wire, though a program may leave it out."""
    return field(default=default, metadata={"required": True})


def omitted_when_empty(default: Any = ()) -> Any:
    """A member that is not written while it is empty or false."""
    return field(default=default, metadata={"omitted": True})


# ---- how values are read ----


def string(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ContractError(f"expected a string, got {kind_of(value)}")


def boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ContractError(f"expected true or false, got {kind_of(value)}")


def any_word(value: object) -> str:
    """A word of an open set, whatever it came as: what is no string is kept as its JSON."""
    return value if isinstance(value, str) else json.dumps(value).decode()


def whole(low: int, high: int) -> Read:
    """How an integer of these bounds is read."""

    def read_integer(value: object) -> int:
        if type(value) is not int:
            raise ContractError(f"expected an integer, got {kind_of(value)}")
        if not low <= value <= high:
            raise ContractError(f"expected an integer of {low} to {high}, got {value}")
        return value

    return read_integer


def one_of(words: tuple[Any, ...]) -> Read:
    """How a word of a closed set is read."""

    def read_word(value: object) -> str:
        word = string(value)
        if word not in words:
            raise ContractError(f"expected one of {', '.join(words)}, got {word}")
        return word

    return read_word


def many(item: Read) -> Read:
    """How a list is read whose items `item` reads."""

    def read_list(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise ContractError(f"expected a list, got {kind_of(value)}")
        made = []
        for at, one in enumerate(value):
            try:
                made.append(item(one))
            except ContractError as failure:
                raise failure.under(f"[{at}]") from None
        return tuple(made)

    return read_list


def optional(inner: Read) -> Read:
    """How a value is read that may be null, which is the same as absent."""
    return lambda value: None if value is None else inner(value)


U32 = Annotated[int, whole(0, 2**32 - 1)]
U64 = Annotated[int, whole(0, 2**64 - 1)]
I64 = Annotated[int, whole(-(2**63), 2**63 - 1)]
Word = Annotated[str, any_word]


def kind_of(value: object) -> str:
    """What a JSON value is, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    kinds = ((str, "a string"), (int, "an integer"), (float, "a number"), (list, "a list"))
    return next((words for kind, words in kinds if isinstance(value, kind)), "an object")


class _Member(NamedTuple):
    read: Read
    required: bool
    omitted: bool  # while it is empty


_tables: dict[type, dict[str, _Member]] = {}  # by document, made when it is first used


def _members(cls: Any) -> dict[str, _Member]:
    if cls not in _tables:
        hints = get_type_hints(cls, include_extras=True)
        _tables[cls] = {one.name: _member(one, hints[one.name]) for one in fields(cls)}
    return _tables[cls]


def _member(declared: "Field[Any]", hint: Any) -> _Member:
    needed = declared.default is MISSING or "required" in declared.metadata
    return _Member(_reader(hint), needed, "omitted" in declared.metadata)


def _reader(hint: Any) -> Read:
    """How a value is read that is annotated so."""
    if hint is str:
        return string
    if hint is bool:
        return boolean
    if isinstance(hint, type) and issubclass(hint, Document):
        return functools.partial(read, hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return args[1]  # type: ignore[no-any-return]
    if origin is Literal:
        return one_of(args)
    if origin is tuple and args[1:] == (...,):
        return many(_reader(args[0]))
    rest = [one for one in args if one is not types.NoneType]
    if len(rest) == 1 and len(args) == 2:
        return optional(_reader(rest[0]))
    raise TypeError(f"the contract has no reading of {hint!r}")


def _written(document: Document) -> dict[str, Any]:
    made = {}
    for name, member in _members(type(document)).items():
        value = getattr(document, name)
        if value is None or (member.omitted and not value):
            continue
        made[name] = _plain(value)
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, Document):
        return value.to_wire()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
