"""Collects the admission hooks of an in-process world from a fresh instance."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.agents.expert import AdvisesActs
from assay.environments.hooks import (
    Collects,
    DoesNothing,
    Perturbs,
    Shortcuts,
    SolvesElsewhere,
    SolvesItself,
    SolvesOtherwise,
)
from assay.environments.worlds.opening import open_world, world_kind
from assay.errors import TaskError, boundary
from assay.records import EnvironmentSpec, ToolCall, canonical_bytes
from assay.tasks import LoadedTask

MOST_VARIANTS, MOST_CALLS = 200, 2_000


class WorldHooks(NamedTuple):
    """Calls from each hook; None where the world lacks the hook."""

    oracle: tuple[ToolCall, ...] | None = None
    null: dict[str, tuple[ToolCall, ...]] | None = None
    perturb: dict[str, tuple[ToolCall, ...]] | None = None
    shortcuts: dict[str, tuple[ToolCall, ...]] | None = None
    variants: dict[str, tuple[ToolCall, ...]] | None = None
    elsewhere: tuple[ToolCall, ...] | None = None
    """Solution of the same world with another seed; None where the seed has no effect or no solution is known."""


async def collect_hooks(loaded: LoadedTask, seed: int) -> WorldHooks:
    """Calls the hooks of a fresh world of the task. Raises `TaskError` if a hook does not return lists of calls."""
    spec = loaded.task.environment
    kind = world_kind(spec.kind)
    with boundary(TaskError, f"asking the environment {spec.kind!r} of task {loaded.task.id!r} for its hooks"):
        world: Any = open_world(spec, kind)
        other: Any = open_world(msgspec.structs.replace(spec, seed=spec.seed + 1), kind)
        try:
            hooks = await asyncio.to_thread(_call_hooks, world, seed)
            differs = await world.digest() != await other.digest()
            if hooks.oracle is None or not differs:
                return hooks
            if isinstance(world, SolvesElsewhere):
                return hooks._replace(elsewhere=_convert_calls(world.elsewhere(), "elsewhere"))
            elsewhere = await asyncio.to_thread(lambda: _convert_calls(other.oracle(), "oracle"))
            same = elsewhere == hooks.oracle or await _end_alike(spec, kind, (hooks.oracle, elsewhere))
            return hooks._replace(elsewhere=None if same else elsewhere)
        finally:
            await world.close()
            await other.close()


async def gives_advice(loaded: LoadedTask) -> bool:
    """Returns whether a task's world is a text world, in which `expert` and `random-world` act.

    Raises `TaskError` if it cannot be opened.
    """
    spec = loaded.task.environment
    with boundary(TaskError, f"opening the environment {spec.kind!r} of task {loaded.task.id!r}"):
        world: Any = open_world(spec, world_kind(spec.kind))
        try:
            return isinstance(world, AdvisesActs)
        finally:
            await world.close()


async def _end_alike(spec: EnvironmentSpec, kind: Any, ways: Sequence[Sequence[ToolCall]]) -> bool:
    """Returns whether these call sequences end in the same state, as far as `collect` reports it."""
    ends = []
    for calls in ways:
        world = open_world(spec, kind)
        try:
            for call in calls:
                await world.call(call.name, call.parsed or {})
            if not isinstance(world, Collects):
                return False
            ends.append(canonical_bytes(world.collect()))
        finally:
            await world.close()
    return len(set(ends)) == 1


def _call_hooks(world: object, seed: int) -> WorldHooks:
    return WorldHooks(
        oracle=_convert_calls(world.oracle(), "oracle") if isinstance(world, SolvesItself) else None,
        null=_convert_variants(world.null(), "null") if isinstance(world, DoesNothing) else None,
        perturb=_convert_variants(world.perturb(seed), "perturb") if isinstance(world, Perturbs) else None,
        shortcuts=_convert_variants(world.shortcuts(seed), "shortcuts") if isinstance(world, Shortcuts) else None,
        variants=_convert_variants(world.variants(seed), "variants") if isinstance(world, SolvesOtherwise) else None,
    )


def _convert_variants(variants: Mapping[str, Sequence[ToolCall]], hook: str) -> dict[str, tuple[ToolCall, ...]]:
    if len(variants) > MOST_VARIANTS:
        raise TaskError(f"the hook {hook!r} gives {len(variants)} ways; at most {MOST_VARIANTS}")
    converted = {_plain(name): _convert_calls(calls, f"{hook} {name!r}") for name, calls in variants.items()}
    if len(converted) != len(variants):
        raise TaskError(
            f"the hook {hook!r} gives names that differ in nothing but punctuation: {', '.join(map(str, variants))}"
        )
    return converted


def _plain(name: object) -> str:
    """Returns the name with characters that an attempt id allows."""
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in str(name))[:60] or "unnamed"


def _convert_calls(raw: Sequence[ToolCall], hook: str) -> tuple[ToolCall, ...]:
    try:
        calls = msgspec.convert(tuple(raw), tuple[ToolCall, ...])
    except (msgspec.ValidationError, TypeError) as exc:
        raise TaskError(f"the hook {hook} gives no list of tool calls: {exc}") from exc
    if len(calls) > MOST_CALLS:
        raise TaskError(f"the hook {hook} gives {len(calls)} calls; at most {MOST_CALLS}")
    return calls
