"""Seeded random actions for two environments under comparison, drawn from their tool schemas."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from assay.agents.random_shell import random_command
from assay.environments.interface import ToolSpec
from assay.records import canonical_bytes

DEEP = 4
_WORDS = ("", "a", "b", "abc", "Alpha", "two words", "0", "-1", "é", "x" * 40)
_NUMBERS = (0, 1, 2, 3, 5, 10, -1, 100)
_ON_FILES = (
    "wc -c {file}",
    "head -c 300 {file}",
    "sha256sum {file}",
    "cp {file} copy.tmp && wc -l copy.tmp",
    "echo {word} >> {file}",
    "rm -f {file}",
    "sed -i 1d {file}",
    "test -x {file}",
    "mv {file} moved.tmp && ls",
    "python3 {file} < /dev/null 2>&1 | tail -n 3",
)


class ComparisonAction(NamedTuple):
    tool: str
    arguments: dict[str, Any]

    def describe(self) -> str:
        """Returns the call as one line."""
        return f"{self.tool} {canonical_bytes(self.arguments).decode()[:300]}"


def tool_actions(specs: Sequence[ToolSpec], steps: int, seed: str) -> tuple[ComparisonAction, ...]:
    """Draws tool calls with arguments from their schemas; about one in six is invalid on purpose."""
    draw = random.Random(seed)
    actions = []
    for _ in range(steps):
        spec = draw.choice(list(specs)) if specs else ToolSpec("none", "", {})
        arguments = draw_argument(spec.parameters, draw)
        given: dict[str, Any] = arguments if isinstance(arguments, dict) else {}
        kind = draw.randrange(18)
        if kind == 0 and given:
            given = {key: value for key, value in given.items() if key != sorted(given)[0]}
        elif kind == 1 and given:
            given = {**given, sorted(given)[0]: [None]}
        actions.append(ComparisonAction(f"{spec.name}_x" if kind == 2 else spec.name, given))
    return tuple(actions)


def draw_argument(schema: Any, draw: random.Random, depth: int = 0) -> Any:
    """Draws a value for a JSON schema, by its common keywords; None for an unsupported schema."""
    if not isinstance(schema, dict) or depth > DEEP:
        return None
    choices = schema.get("enum") or ([schema["const"]] if "const" in schema else None)
    if isinstance(choices, list) and choices:
        return draw.choice(choices)
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list) and schema[word]:
            return draw_argument(draw.choice(schema[word]), draw, depth)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = draw.choice(kind) if kind else None
    if kind == "object" or "properties" in schema:
        return _object(schema, draw, depth)
    if kind == "array":
        least = schema.get("minItems")
        first = min(least, 5) if isinstance(least, int) and least > 0 else 0
        count = draw.randint(first, max(3, first))
        return [draw_argument(schema.get("items", {}), draw, depth + 1) for _ in range(count)]
    if kind in ("integer", "number"):
        return _number(schema, draw, whole=kind == "integer")
    if kind == "boolean":
        return draw.random() < 0.5
    return draw.choice(_WORDS) if kind == "string" else None


def _object(schema: dict[str, Any], draw: random.Random, depth: int) -> dict[str, Any]:
    properties, required = schema.get("properties"), schema.get("required")
    known = properties if isinstance(properties, dict) else {}
    wanted = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    chosen = [name for name in known if name in wanted or draw.random() < 0.6]
    return {name: draw_argument(known[name], draw, depth + 1) for name in chosen}


def _number(schema: dict[str, Any], draw: random.Random, *, whole: bool) -> int | float:
    low, high = _bound(schema.get("minimum", schema.get("exclusiveMinimum"))), _bound(schema.get("maximum"))
    if low is not None or high is not None:
        first = low if low is not None else (high or 0) - 10
        last = high if high is not None else first + 10
        return draw.randint(min(first, last), max(first, last))
    return draw.choice(_NUMBERS) if whole or draw.random() < 0.6 else draw.choice((0.5, -2.25, 1e6))


def _bound(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else None


def shell_actions(files: Sequence[str], steps: int, seed: str) -> tuple[ComparisonAction, ...]:
    """Draws shell commands that list, create, read and edit files."""
    draw = random.Random(seed)
    actions: list[ComparisonAction] = []
    for _ in range(steps):
        file, kind = (draw.choice(list(files)) if files else "./none"), draw.randrange(10)
        if kind < 5 and files:
            command = draw.choice(_ON_FILES).format(file=f"'{file}'", word=draw.choice(("alpha", "beta")))
            actions.append(ComparisonAction("shell", {"command": command, "timeout_s": 20.0}))
        elif kind < 7:
            actions.append(ComparisonAction("shell", {"command": random_command(draw, 0.0), "timeout_s": 20.0}))
        elif kind < 9:
            actions.append(ComparisonAction("read", {"path": file, "start": draw.choice((1, 1, 3)), "lines": 20}))
        else:
            actions.append(
                ComparisonAction("edit", {"path": draw.choice((file, "./new.txt")), "old": "", "new": "text\n"})
            )
    return tuple(actions)
