"""YAML front matter of a SKILL.md, read as the reference checker of Agent Skills reads it.

The reference (`skills-ref`) takes the strict subset of YAML: block mappings and lists of plain text. Flow collections,
anchors, aliases, tags and repeated keys are refused, and every scalar is text. The syntax is read by PyYAML's parser of
events; no object is built from a tag. Two differences: U+0085, U+2028 and U+2029 end a line here, as in YAML 1.1, and
are text for the reference; and a line that begins with a colon, a field without a name, is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from assay.errors import MissingLibraryError

FRONT_MATTER_BYTES = 64 << 10
"""Maximum length of a front matter."""
_DEPTH = 8


class FrontMatterError(ValueError):
    """The front matter cannot be read; the message says why and where."""


class SkillText(NamedTuple):
    """The parts of a SKILL.md."""

    fields: dict[str, Any]
    """Text, and lists and tables of text."""
    body: str


def parse_skill_text(text: str) -> SkillText:
    """Parses the text of a SKILL.md. Raises `FrontMatterError`."""
    if not text.startswith("---"):
        raise FrontMatterError("SKILL.md must start with YAML front matter: a line ---, fields, a line ---")
    parts = text.split("---", 2)
    if len(parts) < 3:
        raise FrontMatterError("the front matter of SKILL.md is not closed: write a line --- below its last field")
    if len(parts[1]) > FRONT_MATTER_BYTES:
        raise FrontMatterError(f"the front matter is longer than {FRONT_MATTER_BYTES >> 10} KiB")
    return SkillText(_parse_mapping(parts[1]), parts[2].strip())


def _parse_mapping(text: str) -> dict[str, Any]:
    try:
        import yaml
    except ImportError as exc:
        raise MissingLibraryError("skills need PyYAML, which is not installed: pip install 'assay[skills]'") from exc
    try:
        value = _Builder(yaml.parse(text, Loader=yaml.SafeLoader)).build()
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        if isinstance(exc, FrontMatterError):
            raise
        raise FrontMatterError(f"the front matter is not valid YAML: {_one_line(exc)}") from exc
    if not isinstance(value, dict):
        raise FrontMatterError("the front matter is not a YAML mapping: write one `field: value` per line")
    return value


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


class _Builder:
    """Builds text, lists and tables from the events of one YAML document.

    Events are parsed as they are taken, so that a hostile text is refused at its first bracket or its ninth level.
    """

    def __init__(self, events: Iterable[Any]) -> None:
        self._events = iter(events)

    def build(self) -> Any:
        """Returns the document; None if it is empty. Raises `FrontMatterError` for what the strict subset refuses."""
        import yaml

        found: Any = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
            elif isinstance(event, yaml.events.NodeEvent):
                found = self._node(event, 0)
        if documents > 1:
            raise FrontMatterError("the front matter holds several YAML documents: write one")
        return found

    def _node(self, event: Any, depth: int) -> Any:
        import yaml

        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise FrontMatterError(f"front matter, line {line}: anchors and aliases are not allowed")
        if event.tag is not None:
            raise FrontMatterError(f"front matter, line {line}: the tag {event.tag[:40]!r} is not allowed")
        if isinstance(event, yaml.ScalarEvent):
            return event.value
        if event.flow_style:
            raise FrontMatterError(f"front matter, line {line}: write lists and tables over lines, not in brackets")
        if depth == _DEPTH:
            raise FrontMatterError(f"front matter, line {line}: nested deeper than {_DEPTH}")
        if isinstance(event, yaml.SequenceStartEvent):
            return list(self._items(depth))
        return self._mapping(depth)

    def _items(self, depth: int) -> Any:
        import yaml

        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
                return
            yield self._node(event, depth + 1)

    def _mapping(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        items = self._items(depth)
        for key in items:
            if not isinstance(key, str):
                raise FrontMatterError("front matter: a key is a list or a table; keys are text")
            if key in found:
                raise FrontMatterError(f"front matter: the field {key[:60]!r} is given twice")
            found[key] = next(items)
        return found


def render_front_matter(fields: dict[str, Any]) -> str:
    """Returns a front matter in the strict subset: text quoted as JSON, tables of text indented."""
    lines = ["---"]
    for name, value in fields.items():
        if isinstance(value, dict):
            lines += [f"{name}:", *(f"  {key}: {_quoted(text)}" for key, text in value.items())]
        else:
            lines.append(f"{name}: {_quoted(value)}")
    return "\n".join([*lines, "---"]) + "\n"


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
