"""Disturbances of names: tools and parameters are called otherwise, from the start or from some call on."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from assay.environments.interface import ToolSpec
from assay.environments.services.plans import PlannedCall
from assay.environments.services.world import ServiceWorld

from .interface import Answer, Call, Disturbance, DisturbanceOptions, Inner

_SYNONYMS: Final[Mapping[str, Sequence[str]]] = {
    "add": ("create", "insert"),
    "book": ("reserve",),
    "cancel": ("revoke", "call_off"),
    "change": ("modify", "alter"),
    "create": ("open", "make"),
    "current": ("present",),
    "date": ("day",),
    "delete": ("erase", "discard"),
    "find": ("look_up",),
    "get": ("fetch", "retrieve"),
    "id": ("ref", "key"),
    "limit": ("max_count",),
    "list": ("enumerate",),
    "message": ("note",),
    "name": ("label",),
    "number": ("no",),
    "order": ("purchase",),
    "read": ("view", "show"),
    "reason": ("why",),
    "remove": ("take_out",),
    "search": ("query",),
    "send": ("dispatch",),
    "set": ("assign",),
    "status": ("stage",),
    "text": ("content",),
    "time": ("clock",),
    "total": ("amount",),
    "update": ("edit", "revise"),
    "user": ("account",),
    "wait": ("pause",),
}
_SUFFIXES: Final = ("_op", "_v2", "_call", "_item", "_x")


def other_name(name: str, draw: random.Random, used: Collection[str]) -> str:
    """Returns another name that is not used: with synonyms of its words, or with a suffix."""
    words = [draw.choice(_SYNONYMS[word]) if word in _SYNONYMS else word for word in name.split("_")]
    candidates = ["_".join(words), *(name + suffix for suffix in draw.sample(_SUFFIXES, len(_SUFFIXES)))]
    numbered = (f"{name}_{number}" for number in range(2, len(used) + 3))
    return next(one for one in (*candidates, *numbered) if one != name and one not in used)


def _rename_keys(arguments: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in arguments.items()}


def _rename_schema(schema: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    renamed = dict(schema)
    if "properties" in schema:
        renamed["properties"] = _rename_keys(schema["properties"], names)
    if "required" in schema:
        renamed["required"] = [names.get(name, name) for name in schema["required"]]
    return renamed


class Renamed(Disturbance):
    """Tools and parameters with other names: the agent sees the new schema, and old names do not exist.

    `rate` is the share of names that are other ones.
    """

    kind = "renamed"

    def __init__(self, options: Any, world: ServiceWorld) -> None:
        super().__init__(options, world)
        self._tools: dict[str, str] = {}
        self._parameters: dict[str, dict[str, str]] = {}

    def bind(self, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        self._tools = dict(self._choose([spec.name for spec in specs], ""))
        self._parameters = {
            spec.name: dict(self._choose(list(spec.parameters.get("properties", {})), spec.name)) for spec in specs
        }
        self._inward = {self._tools.get(spec.name, spec.name): spec.name for spec in specs}
        return tuple(
            ToolSpec(
                self._tools.get(spec.name, spec.name),
                self.outward_text(spec.description),
                _rename_schema(spec.parameters, self._parameters[spec.name]),
            )
            for spec in specs
        )

    def _choose(self, names: Sequence[str], where: str) -> Iterator[tuple[str, str]]:
        used = set(names)
        for name in names:
            draw = self.draw_for(f"{where}/{name}")
            if draw.random() < self.options.rate:
                new = other_name(name, draw, used)
                used.add(new)
                yield name, new

    def call(self, call: Call, inner: Inner) -> Answer:
        name = self._inward.get(call.name)
        if name is None:
            known = ", ".join(self._inward)
            return Answer(f"Error (not_found): There is no tool {call.name[:80]!r}; there are: {known}.", "not_found")
        parameters = self._parameters[name]
        gone = [given for given in call.arguments if given in parameters]
        if gone:
            text = f"Error (invalid): Wrong arguments for {call.name}: there is no parameter `{gone[0]}`."
            return Answer(text, "invalid")
        inward = {new: old for old, new in parameters.items()}
        answer = inner(Call(call.number, name, _rename_keys(call.arguments, inward)))
        if answer.code is None:
            return answer
        return answer._replace(text=_rename_quoted(self.outward_text(answer.text), parameters))

    def outward(self, call: PlannedCall, number: int) -> PlannedCall:
        names = self._parameters.get(call.action, {})
        return PlannedCall(self._tools.get(call.action, call.action), _rename_keys(call.arguments, names))

    def outward_text(self, text: str) -> str:
        spoken = {old: new for old, new in self._tools.items() if "_" in old}
        text = _rename_quoted(text, self._tools)
        if not spoken:
            return text
        pattern = rf"\b(?:{'|'.join(sorted(spoken, key=len, reverse=True))})\b"
        return re.sub(pattern, lambda found: spoken[found[0]], text)

    def rewrite(self, text: str) -> str:
        return self.outward_text(text)

    def facts(self) -> dict[str, Any]:
        return {"tools": self._tools, "parameters": {name: names for name, names in self._parameters.items() if names}}


def _rename_quoted(text: str, names: Mapping[str, str]) -> str:
    """Replaces names between backquotes, also in a path such as `$.name`."""

    def replace(found: re.Match[str]) -> str:
        return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), found[0])

    return re.sub(r"`[^`\n]*`", replace, text)


class _DriftOptions(DisturbanceOptions, frozen=True):
    at: Annotated[int, Meta(ge=1, le=1000)] = 3
    """Number of the call from which the names are others."""
    part: Literal["parameters", "results", "both"] = "both"
    """Things that get other names: a parameter of a tool, fields of its result, or both."""


class Drift(Disturbance):
    """Names that change on the way: from a call on, a parameter of a tool, or a field of its result, has another.

    `rate` is the share of tools with such a parameter, and of fields. A call with the old name is refused, and the
    refusal names the new one.
    """

    kind = "drift"
    Options = _DriftOptions

    def __init__(self, options: Any, world: ServiceWorld) -> None:
        super().__init__(options, world)
        self._names: dict[str, tuple[str, str]] = {}

    def bind(self, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        if self.options.part == "results":
            return specs
        for spec in specs:
            names = list(spec.parameters.get("properties", {}))
            draw = self.draw_for(spec.name)
            if names and draw.random() < self.options.rate:
                required = [name for name in names if name in spec.parameters.get("required", ())]
                old = draw.choice(required or names)
                self._names[spec.name] = (old, other_name(old, draw, names))
        return specs

    def call(self, call: Call, inner: Inner) -> Answer:
        if call.number < self.options.at:
            return inner(call)
        arguments = call.arguments
        if call.name in self._names:
            old, new = self._names[call.name]
            if old in arguments:
                self.state["refused"] = self.state.get("refused", 0) + 1
                text = f"Error (invalid): Wrong arguments for {call.name}: `{old}` is now called `{new}`."
                return Answer(text, "invalid", self.kind)
            arguments = _rename_keys(arguments, {new: old})
        answer = inner(call._replace(arguments=arguments))
        if answer.code is not None:
            return answer._replace(text=_rename_quoted(answer.text, dict([self._names.get(call.name, ("", ""))])))
        return answer if self.options.part == "parameters" else self._rename_fields(call.name, answer)

    def _rename_fields(self, tool: str, answer: Answer) -> Answer:
        try:
            result = msgspec.json.decode(answer.text)
        except msgspec.DecodeError:
            return answer
        rows = result if isinstance(result, list) else [result]
        names: dict[str, str] = {}
        for name in sorted({key for row in rows if isinstance(row, dict) for key in row}):
            draw = self.draw_for(f"{tool}/{name}")
            if draw.random() < self.options.rate and name != "next_cursor":
                names[name] = other_name(name, draw, [*names.values(), name])
        if not names:
            return answer
        self.state["renamed"] = self.state.get("renamed", 0) + 1
        renamed = [_rename_keys(row, names) if isinstance(row, dict) else row for row in rows]
        text = msgspec.json.encode(renamed if isinstance(result, list) else renamed[0]).decode()
        return answer._replace(text=text)

    def outward(self, call: PlannedCall, number: int) -> PlannedCall:
        if number < self.options.at or call.action not in self._names:
            return call
        old, new = self._names[call.action]
        return PlannedCall(call.action, _rename_keys(call.arguments, {old: new}))

    def facts(self) -> dict[str, Any]:
        return {"refused": self.state.get("refused", 0), "renamed_results": self.state.get("renamed", 0)}
