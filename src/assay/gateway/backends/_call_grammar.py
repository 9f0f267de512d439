"""Grammar of tool calls written as text: `NAME ARGUMENTS`, the arguments as compact JSON that fits the tool's schema.

The grammar is in GBNF, the notation of llama.cpp. Of a schema it takes types, `enum`, `const`, `properties` (all of
them, in order), `items` and references to `$defs`; whatever else a schema asks for, the tool's own validation answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

_MAX_RULES = 500
_MAX_DEPTH = 8
_COMMON = r"""
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" (string ":" value ("," string ":" value)*)? "}"
array ::= "[" (value ("," value)*)? "]"
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
number ::= integer ("." [0-9]{1,15})?
boolean ::= "true" | "false"
"""
_NAMED = {"string": "string", "integer": "integer", "number": "number", "boolean": "boolean", "null": '"null"'}


class UnusableSchemaError(ValueError):
    """A schema that is too large."""


def call_grammar(tools: Sequence[Mapping[str, Any]]) -> str:
    """Returns the grammar of one call to one of the tools (`name` and `parameters` of each).

    Raises:
        UnusableSchemaError: The schemas need more than 500 rules.
    """
    rules = _Rules()
    names = []
    for number, tool in enumerate(tools):
        parameters = tool.get("parameters")
        schema = parameters if isinstance(parameters, dict) else {}
        definitions = schema.get("$defs")
        rules.definitions = definitions if isinstance(definitions, dict) else {}
        arguments = rules.of({"type": "object", **schema}, 0)
        rules.lines[f"call{number}"] = f"{literal(str(tool['name']) + ' ')} {arguments}"
        names.append(f"call{number}")
    body = "\n".join(f"{name} ::= {rule}" for name, rule in rules.lines.items())
    return f"root ::= {' | '.join(names)}\n{body}{_COMMON}"


def literal(text: str) -> str:
    """Returns a text as a quoted literal of the grammar."""
    return '"{}"'.format("".join(map(_escape, text)))


def _escape(character: str) -> str:
    if character in '\\"':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08X}"


class _Rules:
    def __init__(self) -> None:
        self.lines: dict[str, str] = {}
        self.definitions: Mapping[str, Any] = {}

    def of(self, schema: Any, depth: int) -> str:
        """Returns the name of the rule of a schema, or an expression without alternatives."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return "value"
        if len(self.lines) > _MAX_RULES:
            raise UnusableSchemaError(f"the tools' schemas need more than {_MAX_RULES} rules")
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self.of(self.definitions.get(reference.rpartition("/")[2]), depth + 1)
        if "const" in schema or isinstance(schema.get("enum"), list):
            values = [schema["const"]] if "const" in schema else schema["enum"]
            return self._add(" | ".join(literal(msgspec.json.encode(value).decode()) for value in values) or "value")
        options = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(options, list) and options:
            return self._add(" | ".join(self.of(option, depth + 1) for option in options))
        kind = schema.get("type")
        if isinstance(kind, list) and kind:
            return self._add(" | ".join(self.of({**schema, "type": one}, depth + 1) for one in kind))
        if kind == "object" and isinstance(schema.get("properties"), dict):
            return self._object(schema["properties"], depth)
        if kind == "object" and schema.get("additionalProperties") is False:
            return literal("{}")
        if kind == "array" and "items" in schema:
            item = self.of(schema["items"], depth + 1)
            return self._add(f'"[" ({item} ("," {item})*)? "]"')
        return _NAMED.get(kind, "value") if isinstance(kind, str) and kind != "object" else "object"

    def _object(self, properties: Mapping[str, Any], depth: int) -> str:
        parts = list[str]()
        for place, (name, schema) in enumerate(properties.items()):
            key = msgspec.json.encode(str(name)).decode()
            parts += [literal(f"{',' if place else ''}{key}:"), self.of(schema, depth + 1)]
        return self._add(" ".join((literal("{"), *parts, literal("}"))))

    def _add(self, rule: str) -> str:
        name = f"r{len(self.lines)}"
        self.lines[name] = rule
        return name
