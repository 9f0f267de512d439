"""Composite tools: recurring sequences of calls that an agent makes as one call.

A composite is a list of calls of the environment's own tools. Each argument is a parameter of the composite, a
constant, or a value in the result of an earlier call. It is expanded on the agent's side: the environment is sent its
own calls, which are recorded as steps, so that the record replays and is judged without knowing the composite; evidence
of the kind `composite_call` names it. A composite stops at the first call that fails, and where a list from which it
needs the only element has none or several; what was done until then is returned, and is not undone.

`assay skills mine` finds composites in verified attempts, executes them again, and writes them as the file
`assets/composite-tools.json` of a skill.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import msgspec

from assay.environments.interface import Tools, ToolSpec
from assay.errors import TaskError
from assay.limited_file import parse_file
from assay.records import Evidence, Observation, Step, ToolCall, canonical_bytes, digest_bytes

from .interface import Attempt, ForwardingAttempt

COMPOSITES_FILE = "assets/composite-tools.json"
"""Path of the declarations in a skill's folder."""
MOST_CALLS = 8
"""Maximum number of calls of one composite."""
_MOST_TOOLS, _FILE_BYTES, _MOST_DEPTH = 64, 1 << 20, 100
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]


class ArgumentSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where an argument of a call comes from: exactly one of a parameter, a constant and an earlier result."""

    parameter: str = ""
    """Name of a parameter of the composite."""
    constant: Any = msgspec.UNSET
    result: Annotated[int, msgspec.Meta(ge=0, le=MOST_CALLS)] | None = None
    """Position of the earlier call whose result holds the value."""
    path: tuple[str, ...] = ()
    """Keys into that result; `[]` takes the only element of a list."""

    def __post_init__(self) -> None:
        """Requires exactly one of the three sources."""
        if sum((bool(self.parameter), self.constant is not msgspec.UNSET, self.result is not None)) != 1:
            raise ValueError("an argument comes from a parameter, a constant or a result, and from one of them alone")


class CompositeCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call of a composite."""

    tool: str
    arguments: dict[str, ArgumentSource]


class CompositeTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A composite tool."""

    name: Name
    calls: Annotated[tuple[CompositeCall, ...], msgspec.Meta(min_length=2, max_length=MOST_CALLS)]

    def __post_init__(self) -> None:
        """Rejects a call that needs the result of a later one."""
        for position, call in enumerate(self.calls):
            if any(source.result is not None and source.result >= position for source in call.arguments.values()):
                raise ValueError(f"call {position} of {self.name} needs the result of a call that comes later")

    @property
    def parameters(self) -> dict[str, tuple[str, str]]:
        """Returns the tool and the argument that each parameter is first given to."""
        found: dict[str, tuple[str, str]] = {}
        for call in self.calls:
            for name, source in call.arguments.items():
                if source.parameter:
                    found.setdefault(source.parameter, (call.tool, name))
        return found

    def describe(self) -> str:
        """Returns what it does, in a sentence for models and readers."""
        parts = [self.calls[0].tool]
        for call in self.calls[1:]:
            taken = [
                f"{name} from the result of {self.calls[source.result].tool}"
                for name, source in call.arguments.items()
                if source.result is not None
            ]
            parts.append(call.tool + (f" with {' and '.join(taken)}" if taken else ""))
        return f"Calls {', then '.join(parts)}. Stops at a call that fails, or whose list has not exactly one element."


def read_composites(path: Path) -> tuple[CompositeTool, ...]:
    """Reads the composite tools of a skill's folder, or of a file. Raises `UserError` for what is no declaration."""
    file = path / COMPOSITES_FILE if path.is_dir() else path
    hint = "`assay skills mine` and `assay skills export` write them"
    return parse_file(file, decode_composites, holding="composite tools", limit=_FILE_BYTES, hint=hint)


def decode_composites(data: bytes) -> tuple[CompositeTool, ...]:
    """Returns the tools of a file's bytes. Raises `ValueError` for others, or for two tools of one name."""
    found = msgspec.json.decode(data, type=tuple[CompositeTool, ...])
    if len(found) > _MOST_TOOLS or len({one.name for one in found}) != len(found):
        raise ValueError(f"expected at most {_MOST_TOOLS} tools, each with a name of its own")
    sources = (source for one in found for call in one.calls for source in call.arguments.values())
    if any(source.constant is not msgspec.UNSET and _is_deep(source.constant) for source in sources):
        raise ValueError(f"a constant is nested deeper than {_MOST_DEPTH}")
    return found


def encode_composites(tools: Sequence[CompositeTool]) -> bytes:
    """Returns the bytes of the file."""
    return msgspec.json.format(msgspec.json.encode(tuple(tools)), indent=1) + b"\n"


class RecordedCall(NamedTuple):
    """A call that was made, with its parsed result."""

    step: int
    """`Step.index` of its step."""
    tool: str
    arguments: dict[str, Any]
    result: Any
    """Parsed JSON; text that is no JSON as it is."""
    is_error: bool
    changed: bool
    """True if the state changed, or if that is not known."""


def parse_result(content: str) -> Any:
    """Returns the JSON value of an observation; its text where it is no JSON, or nested too deeply to be compared."""
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return content
    return content if _is_deep(found) else found


def _is_deep(value: Any) -> bool:
    """Returns whether a value is nested deeper than `_MOST_DEPTH`."""
    level = [value]
    for _ in range(_MOST_DEPTH):
        inside: list[Any] = []
        for one in level:
            if isinstance(one, dict | list):
                inside += one.values() if isinstance(one, dict) else one
        if not inside:
            return False
        level = inside
    return True


def value_at(result: Any, path: Sequence[str]) -> Any:
    """Returns the value at a path. Raises `LookupError` if it is not there, or not the only one."""
    for key in path:
        if key == "[]":
            if not isinstance(result, list) or len(result) != 1:
                count = len(result) if isinstance(result, list) else "no list of"
                raise LookupError(f"the result has {count} elements, and exactly one is needed")
            result = result[0]
        elif isinstance(result, dict) and key in result:
            result = result[key]
        else:
            raise LookupError(f"the result has no {key!r}")
    return result


def match_composite(tool: CompositeTool, calls: Sequence[RecordedCall]) -> dict[str, Any] | None:
    """Returns the composite's arguments with which it makes exactly these calls; None if it cannot."""
    if len(calls) != len(tool.calls):
        return None
    found: dict[str, Any] = {}
    for declared, made in zip(tool.calls, calls, strict=True):
        if declared.tool != made.tool or made.is_error or set(declared.arguments) != set(made.arguments):
            return None
        for name, source in declared.arguments.items():
            value = made.arguments[name]
            try:
                wanted = found.setdefault(source.parameter, value) if source.parameter else _fixed(source, calls)
            except LookupError:
                return None
            if not _same(wanted, value):
                return None
    return found


def _fixed(source: ArgumentSource, calls: Sequence[RecordedCall]) -> Any:
    return source.constant if source.result is None else value_at(calls[source.result].result, source.path)


def _same(one: Any, other: Any) -> bool:
    return canonical_bytes(one) == canonical_bytes(other)  # unlike `==`, it tells true from 1


class CompositeTools:
    """The environment's tools with the composites that consist of them."""

    def __init__(self, inner: Tools, offered: Mapping[str, CompositeTool]) -> None:
        self._inner, self._offered = inner, offered

    def specs(self) -> tuple[ToolSpec, ...]:
        """Returns the environment's tools, then the composites."""
        own = self._inner.specs()
        schemas = {spec.name: spec.parameters.get("properties", {}) for spec in own}
        return (*own, *(_spec(tool, schemas) for tool in self._offered.values()))

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        """Calls a tool of the environment; composites are expanded by `CompositeAttempt.act`."""
        return await self._inner.call(name, arguments)

    async def digest(self) -> str | None:
        """Returns the digest of the environment's state."""
        return await self._inner.digest()


def _spec(tool: CompositeTool, schemas: Mapping[str, Mapping[str, Any]]) -> ToolSpec:
    properties = {
        parameter: schemas[inner].get(argument, {}) for parameter, (inner, argument) in tool.parameters.items()
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolSpec(tool.name, tool.describe(), schema)


class CompositeAttempt(ForwardingAttempt):
    """An attempt whose agent also has composite tools."""

    def __init__(self, attempt: Attempt, tools: Sequence[CompositeTool], taken: Collection[str] = ()) -> None:
        super().__init__(attempt)
        names = {spec.name for spec in attempt.tools.specs()}
        self.offered = {
            tool.name: tool
            for tool in tools
            if tool.name not in {*names, *taken} and all(call.tool in names for call in tool.calls)
        }
        self.tools: Tools = CompositeTools(attempt.tools, self.offered)
        digest = digest_bytes(encode_composites(tools))
        data = {"digest": digest, "offered": sorted(self.offered)}
        attempt.note(Evidence("composites", "audit", "composites_offered", data))
        self._made = 0

    async def act(
        self,
        calls: Sequence[ToolCall],
        *,
        message: str | None = None,
        reasoning: str | None = None,
        call: str | None = None,
    ) -> tuple[Observation, ...]:
        """Executes calls in order; each composite as the steps of its calls. The message is that of the first step."""
        found: list[Observation] = []
        plain: list[ToolCall] = []
        texts = [(message, reasoning)]

        async def act(some: Sequence[ToolCall]) -> tuple[Observation, ...]:
            said, thought = texts.pop() if texts else (None, None)
            return await self._attempt.act(some, message=said, reasoning=thought, call=call)

        for one in calls:
            tool = self.offered.get(one.name) if one.error is None else None
            if tool is None:
                plain.append(one)
                continue
            if plain:
                found += await act(plain)
                plain = []
            found.append(await self._expand(tool, one, act))
        if plain or not calls:
            found += await act(plain)
        return tuple(found)

    async def _expand(self, tool: CompositeTool, outer: ToolCall, act: Any) -> Observation:
        arguments = outer.parsed or {}
        results: list[Any] = []
        problem = ""
        for number, inner in enumerate(tool.calls):
            try:
                given = {name: _argument(source, arguments, results) for name, source in inner.arguments.items()}
            except LookupError as exc:
                problem = f"not called: {inner.tool}: {exc}"
                break
            text = canonical_bytes(given).decode()
            (seen,) = await act([ToolCall(f"{outer.id}.{number}", inner.tool, text, given)])
            results.append(parse_result(seen.content))
            if seen.error:
                problem = f"{inner.tool} failed"
                break
            if self._attempt.ended is not None:
                break
        self._made += 1
        data = {"tool": tool.name, "arguments": arguments, "done": len(results), "of": len(tool.calls)}
        if problem:
            data["problem"] = problem[:300]
        self._attempt.note(Evidence(f"composite-{self._made}", "audit", "composite_call", data))
        shown = [{"tool": inner.tool, "result": result} for inner, result in zip(tool.calls, results, strict=False)]
        content = canonical_bytes(shown).decode() + (f"\n{problem}" if problem else "")
        return Observation(content, outer.id, error=bool(problem))


def _argument(source: ArgumentSource, arguments: Mapping[str, Any], results: Sequence[Any]) -> Any:
    if source.parameter:
        if source.parameter not in arguments:
            raise LookupError(f"the argument {source.parameter} is missing")
        return arguments[source.parameter]
    if source.result is None:
        return source.constant
    return value_at(results[source.result], source.path)


def fold_calls(tools: Sequence[CompositeTool], calls: Sequence[RecordedCall]) -> list[ToolCall]:
    """Returns the calls with every run of them that a composite makes replaced by it: longest first, from the left."""
    ordered = sorted(tools, key=lambda tool: (-len(tool.calls), tool.name))
    found: list[ToolCall] = []
    at = 0
    while at < len(calls):
        for tool in ordered:
            part = calls[at : at + len(tool.calls)]
            arguments = match_composite(tool, part)
            if arguments is not None:
                found.append(_tool_call(len(found), tool.name, arguments))
                at += len(part)
                break
        else:
            found.append(_tool_call(len(found), calls[at].tool, calls[at].arguments))
            at += 1
    return found


def _tool_call(number: int, name: str, arguments: dict[str, Any]) -> ToolCall:
    return ToolCall(f"c{number}", name, canonical_bytes(arguments).decode(), arguments)


def offer_composites(attempt: Attempt, tools: Sequence[CompositeTool], taken: Collection[str] = ()) -> Attempt:
    """Returns the attempt with composite tools beside its own; those with an unknown tool, the name of one or a `taken`
    name are left out, and the record says which are offered."""
    return cast("Attempt", CompositeAttempt(attempt, tools, taken))


class CompositeReplayAgent:
    """Repeats the calls of `attempt.prior`, with those that composites make replaced by them."""

    name = "composite-replay"
    needs_model = False
    attempts_task = False

    def __init__(self, tools: Sequence[CompositeTool]) -> None:
        self._tools = tuple(tools)

    async def run(self, attempt: Attempt) -> None:
        """Raises `TaskError` without a recorded attempt in a world."""
        if attempt.prior is None or attempt.workspace is not None:
            raise TaskError(f"task {attempt.task.id!r}: composite tools are executed again in in-process worlds alone")
        steps = [act for act in attempt.prior.acts if isinstance(act, Step) and act.actor == "agent"]
        offered = offer_composites(attempt, self._tools)
        for call in fold_calls(self._tools, recorded_calls(steps, frozenset())):
            await offered.act([call])
            if attempt.ended is not None:
                return
        attempt.finish("did the recorded calls again, by composite tools")


def recorded_calls(steps: Sequence[Step], readers: frozenset[str]) -> tuple[RecordedCall, ...]:
    """Returns the well-formed calls of an agent's steps, in order.

    Args:
        steps: Steps of the agent.
        readers: Tools that never change the state.
    """
    found = []
    for step in steps:
        for call, seen in zip(step.tool_calls, step.observations, strict=False):
            if call.error is None and call.parsed is not None:
                result = parse_result(seen.content)
                changed = call.name not in readers
                found.append(RecordedCall(step.index, call.name, call.parsed, result, seen.error, changed))
    return tuple(found)
