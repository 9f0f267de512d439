"""Fields of a form: from the schema of a tool's arguments to controls, and from what a browser sent back to arguments.

Rules of reading: an optional field that is empty, or has its default, is left out of the call; an empty field that must
be there is null where null is allowed, and an empty text otherwise. Browsers send line ends as CR LF; a text has LF.

Invariant: `write_texts` and `read_arguments` are inverse for arguments that the schema allows, except texts with CR,
line ends in one-line fields, and empty texts in optional fields that are null by default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from assay.environments.services.files import FILE
from assay.environments.services.schema import format_cents

from .catalog import PageTool, humanize

Widget = Literal[
    "text", "area", "integer", "amount", "number", "choice", "flag", "date", "time", "file", "list", "group", "json"
]

PREFIX: Final = "f-"
"""Beginning of the names of controls; a path follows, whose parts are joined by `/`."""
COUNT: Final = "n-"
"""Beginning of the name of the hidden control that says how many entries of a list are shown."""
SUBMITTED: Final = "_form"
"""Name of the control that every submitted form has."""
MOST_ENTRIES: Final = 200
"""Entries of a list that a form can have."""
_LONGEST_LINE: Final = 200
_DEEPEST: Final = 20
_INTEGER: Final = re.compile(r"[+-]?\d{1,30}", re.ASCII)
_AMOUNT: Final = re.compile(r"([+-]?)(\d{1,28})(?:\.(\d{1,2}))?", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?", re.ASCII)


class _Absent:
    """Type of `ABSENT`."""


ABSENT: Final = _Absent()
"""Stands for a default that does not exist, and for an argument that is left out."""


class Option(NamedTuple):
    """One value of a choice."""

    text: str
    label: str
    value: Any


class Field(NamedTuple):
    """A field of a form."""

    name: str
    label: str
    widget: Widget
    description: str = ""
    is_required: bool = True
    is_nullable: bool = False
    default: Any = ABSENT
    options: tuple[Option, ...] = ()
    item: Field | None = None
    """Of a list."""
    fields: tuple[Field, ...] = ()
    """Of a group."""


class FormData(NamedTuple):
    """Texts by the name of their control; only a submitted form says what its checkboxes are."""

    texts: Mapping[str, str] = {}
    is_submitted: bool = False
    written: frozenset[str] = frozenset()
    """Names of the controls with a text, and of what they are a part of."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> FormData:
        """Returns what a browser sent; of controls with one name, the last counts."""
        texts = {name: text.replace("\r\n", "\n").replace("\r", "\n") for name, text in pairs}
        return cls.having(texts, is_submitted=SUBMITTED in texts)

    @classmethod
    def having(cls, texts: Mapping[str, str], *, is_submitted: bool) -> FormData:
        """Returns a form with texts."""
        written = set()
        for name in (name for name, text in texts.items() if text):
            parts = name.split("/", _DEEPEST)
            written |= {"/".join(parts[:count]) for count in range(1, len(parts) + 1)} | {name}
        return cls(texts, is_submitted, frozenset(written))

    def count(self, path: str) -> int:
        """Returns the number of entries of a list that the form shows."""
        given = self.texts.get(COUNT + path, "")
        return min(int(given), MOST_ENTRIES) if given.isdecimal() and given.isascii() and len(given) < 6 else 0

    @property
    def entries(self) -> int:
        """Number of entries of all lists that the form shows."""
        return sum(self.count(name.removeprefix(COUNT)) for name in self.texts if name.startswith(COUNT))


def read_fields(tool: PageTool) -> tuple[Field, ...]:
    """Returns the fields of a tool's form, in the order of its arguments."""
    return tuple(
        _read_field(name, schema, tool.units.get(name, ""), is_required=name in tool.required, is_view=tool.is_view)
        for name, schema in tool.properties.items()
    )


def _read_field(name: str, schema: Any, unit: str, *, is_required: bool, is_view: bool) -> Field:
    schema = schema if isinstance(schema, Mapping) else {}
    bare, is_nullable = _without_null(schema)
    default = schema.get("default", bare.get("default", ABSENT))
    description = str(schema.get("description") or bare.get("description") or "")
    field = Field(name, humanize(name), "json", description, is_required, is_nullable, default)
    if "enum" in bare or "const" in bare:
        values = bare.get("enum", [bare.get("const")])
        options = tuple(Option(_as_text(value), _option_label(value), value) for value in values if value is not None)
        return field._replace(widget="choice", options=options)
    kind = bare.get("type")
    if kind == "array" and isinstance(bare.get("items"), Mapping):
        item = _read_field("", bare["items"], unit, is_required=True, is_view=is_view)
        return field._replace(widget="list", item=item._replace(label=humanize(name)))
    if kind == "object" and bare.get("properties"):
        required = bare.get("required", ())
        inner = [
            _read_field(key, part, "", is_required=key in required, is_view=is_view)
            for key, part in bare["properties"].items()
        ]
        return field._replace(widget="group", fields=tuple(inner))
    return field._replace(widget=_simple_widget(bare, unit, is_view=is_view))


def _without_null(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """Returns the schema of the values that are not null, and whether null is allowed."""
    if isinstance(schema.get("type"), list):
        kinds = [kind for kind in schema["type"] if kind != "null"]
        return {**schema, "type": kinds[0] if len(kinds) == 1 else None}, "null" in schema["type"]
    parts = schema.get("anyOf")
    if not isinstance(parts, list):
        is_nullable = isinstance(schema.get("enum"), list) and None in schema["enum"]
        return schema, is_nullable or schema.get("type") == "null"
    others = [part for part in parts if part.get("type") != "null"]
    is_nullable = len(others) < len(parts)
    if len(others) != 1:
        return {}, is_nullable
    inner, is_inner_nullable = _without_null(others[0])
    return inner, is_nullable or is_inner_nullable


def _simple_widget(schema: Mapping[str, Any], unit: str, *, is_view: bool) -> Widget:
    kind = schema.get("type")
    if kind == "boolean":
        return "flag"
    if kind == "integer":
        return "amount" if unit == "cents" else "integer"
    if kind == "number":
        return "number"
    if kind != "string":
        return "json"
    if unit in ("date", "time"):
        return "date" if unit == "date" else "time"
    if unit == FILE and not is_view:
        return "file"
    is_short = schema.get("maxLength", _LONGEST_LINE + 1) <= _LONGEST_LINE
    return "text" if is_short or is_view else "area"


def _option_label(value: Any) -> str:
    return humanize(value) if isinstance(value, str) and value else _as_text(value)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# From texts to arguments.


def read_arguments(fields: Sequence[Field], data: FormData) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the arguments that a form holds, and what is wrong with it by the name of the control."""
    problems: dict[str, str] = {}
    return _read_group(fields, PREFIX, data, problems), problems


def _read_group(fields: Sequence[Field], prefix: str, data: FormData, problems: dict[str, str]) -> dict[str, Any]:
    found = {}
    for field in fields:
        value = _read_value(field, prefix + field.name, data, problems)
        if value is not ABSENT and (
            field.is_required or value != field.default or type(value) is not type(field.default)
        ):
            found[field.name] = value
    return found


def _read_value(field: Field, path: str, data: FormData, problems: dict[str, str]) -> Any:
    if field.widget == "list":
        return _read_list(field, path, data, problems)
    if field.widget == "group":
        if not field.is_required and _is_blank(path, data):
            return ABSENT
        return _read_group(field.fields, f"{path}/", data, problems)
    if field.widget == "flag" and shows_checkbox(field):
        return path in data.texts if data.is_submitted else data.texts.get(path) == "on" or field.default
    text = data.texts.get(path)
    if text is None and not data.is_submitted:
        return ABSENT
    if not text:
        return _read_empty(field, path, problems)
    return _parse(field, path, text, problems)


def _read_list(field: Field, path: str, data: FormData, problems: dict[str, str]) -> Any:
    item = field.item
    assert item is not None
    paths = [f"{path}/{at}" for at in range(data.count(path))]
    found = [_read_value(item, one, data, problems) for one in paths if not _is_blank(one, data)]
    return ABSENT if not found and not field.is_required else found


def _read_empty(field: Field, path: str, problems: dict[str, str]) -> Any:
    if field.is_required or field.default is not ABSENT:
        if field.is_nullable:
            return None
        if field.widget in ("text", "area"):
            return ""
    if field.is_required:
        problems[path] = f"{field.label} is missing."
    return ABSENT


def _parse(field: Field, path: str, text: str, problems: dict[str, str]) -> Any:
    if field.widget in ("choice", "flag"):
        found = next((option.value for option in options_of(field) if option.text == text), ABSENT)
        if found is ABSENT:
            problems[path] = f"{field.label} has no choice {text[:80]!r}."
        return found
    stripped = text.strip()
    if field.widget == "integer" and _INTEGER.fullmatch(stripped):
        return int(stripped)
    if field.widget == "amount" and (amount := _AMOUNT.fullmatch(stripped)):
        cents = int(amount[2]) * 100 + int((amount[3] or "").ljust(2, "0"))
        return -cents if amount[1] == "-" else cents
    if field.widget == "number" and _NUMBER.fullmatch(stripped):
        number = int(stripped) if _INTEGER.fullmatch(stripped) else float(stripped)
        if math.isfinite(number):  # what JSON, and so a tool, can be given
            return number
    if field.widget == "json":
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as exc:
            problems[path] = f"{field.label} is not JSON: {exc}."
            return ABSENT
    if field.widget in _EXPECTED:
        problems[path] = f"{field.label} is {text[:80]!r}: expected {_EXPECTED[field.widget]}."
        return ABSENT
    return text


_EXPECTED: Final[Mapping[str, str]] = {
    "integer": "a whole number, such as 12",
    "amount": "an amount with up to two decimals, such as 39.90",
    "number": "a number, such as 1.5",
}


def file_paths(fields: Sequence[Field], data: FormData) -> Iterator[str]:
    """Yields the names of the file controls of a form, also of those in groups and lists."""
    for field in fields:
        yield from _file_paths(field, PREFIX + field.name, data)


def _file_paths(field: Field, path: str, data: FormData) -> Iterator[str]:
    if field.widget == "file":
        yield path
    elif field.widget == "group":
        for part in field.fields:
            yield from _file_paths(part, f"{path}/{part.name}", data)
    elif field.widget == "list" and field.item is not None:
        for at in range(max(data.count(path), 1)):
            yield from _file_paths(field.item, f"{path}/{at}", data)


def shows_checkbox(field: Field) -> bool:
    """Returns whether a field is a checkbox, which is always either on or off."""
    return field.widget == "flag" and not field.is_nullable and isinstance(field.default, bool)


def options_of(field: Field) -> tuple[Option, ...]:
    """Returns the values of a choice, and of a flag that is not a checkbox; empty for other fields."""
    if field.widget == "flag":
        return (Option("yes", "Yes", value=True), Option("no", "No", value=False))
    return field.options


def _is_blank(path: str, data: FormData) -> bool:
    """Returns whether nothing was written into a field or any part of it."""
    return path not in data.written


# From arguments to texts.


def write_texts(fields: Sequence[Field], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Returns the texts of the controls that lead to some arguments; `on` is a ticked checkbox."""
    return dict(_write_group(fields, PREFIX, arguments))


def _write_group(fields: Sequence[Field], prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for field in fields:
        value = values.get(field.name, ABSENT if field.is_required else field.default)
        if value is not ABSENT:
            yield from _write_value(field, prefix + field.name, value)


def _write_value(field: Field, path: str, value: Any) -> Iterator[tuple[str, str]]:
    if field.widget == "list" and isinstance(value, list | tuple) and field.item is not None:
        yield COUNT + path, str(len(value))
        for at, item in enumerate(value):
            yield from _write_value(field.item, f"{path}/{at}", item)
    elif field.widget == "group" and isinstance(value, Mapping):
        yield from _write_group(field.fields, f"{path}/", value)
    elif value is None:
        yield path, ""
    elif field.widget == "flag":
        yield path, (("on" if value else "") if shows_checkbox(field) else "yes" if value else "no")
    elif field.widget == "amount" and isinstance(value, int):
        yield path, format_cents(value)
    elif field.widget == "json":
        yield path, msgspec.json.encode(value).decode()
    else:
        yield path, _as_text(value)
