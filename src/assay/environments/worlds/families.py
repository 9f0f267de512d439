"""Task families of text worlds, one per kind of world.

Options not listed below are options of the world. The same `n` and `seed` give the same tasks; the first tasks do not
depend on `n`. A task's id holds the options that were given: `grid-size3-0-1` is the second task of
`family:grid,size=3`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

import msgspec
from blake3 import blake3

from assay.environments.task_digest import digest_task
from assay.environments.wrapping import WRAP, parse_wrappers
from assay.errors import OptionError, UserError
from assay.records import Check, EnvironmentSpec, Task
from assay.validation_messages import nearest

from .opening import text_world, world_kind

Part = Literal["all", "train", "test"]
_SEARCH = 400
"""Worlds examined per task of a part before the part is considered exhausted."""
_ID_WORD = re.compile(r"[A-Za-z0-9_.]{1,24}")
_PREFIX_LENGTH = 150
"""Maximum characters of an id before seed and number; ids have at most 200."""


class WorldTasks:
    """Tasks in the worlds of one kind.

    Args:
        check: `true` trusts the world's facts; `naive`, if the family has it, trusts the agent's claim.
        part: `train` and `test` share no world and no two equivalent ones; a digest of the `dedup_key` decides, and one
            in four is `test`.
        wrap: Wrappers, as `failures:rate=0.1+noise:rate=0.2`.
        twins: Whether every second task is the unsolvable twin of the one before, solved by declaring it unsolvable.
        config: Options of the world.
    """

    kind: ClassVar[str]
    """World: short name, `module:Class`, or `path/file.py:Class`."""
    short: ClassVar[str] = ""
    """Prefix of task names; default: the kind, which must be short then."""
    tables: ClassVar[frozenset[str]] = frozenset()
    """Options that are tables; written `key:value+key:value`."""
    naive: ClassVar[dict[str, Any] | None] = None
    """Expectation of the naive check; None if the family has none."""

    def __init__(
        self, *, check: str = "true", part: str = "all", wrap: str = "", twins: bool = False, **config: Any
    ) -> None:
        if check not in ("true", "naive", True) or (check == "naive" and self.naive is None):
            known = "true" if self.naive is None else "true or naive"
            raise UserError(f"check={check} of the family {self.short or self.kind!r}: expected {known}")
        if part not in ("all", "train", "test"):
            raise UserError(f"part={part} of the family {self.short or self.kind!r}: expected all, train or test")
        self._short = self.short or self.kind
        marks = {"naive": check == "naive", part: part != "all", "twins": twins}
        flags = [word for word, is_set in marks.items() if is_set]
        self._id_prefix = _id_prefix([self._short, *flags], {**config, "wrap": wrap} if wrap != "" else config)
        self._naive, self._part, self._twins = check == "naive", part, twins
        try:
            self._config = {name: _pairs(value) if name in self.tables else value for name, value in config.items()}
            self._wrap = _wrappers(wrap, twins=twins)
        except ValueError as exc:
            raise UserError(str(exc)) from exc

    def tasks(self, n: int, seed: int) -> tuple[Task, ...]:
        self._require_known_options()
        made: list[Task] = []
        for world_seed in self._seeds(seed):
            if len(made) >= n:
                break
            made.append(self._task(seed, len(made), world_seed, solvable=True))
            if self._twins and len(made) < n:
                made.append(self._task(seed, len(made), world_seed, solvable=False))
        return tuple(made)

    def _seeds(self, seed: int) -> Iterator[int]:
        number = missed = 0
        while missed < _SEARCH:
            found = int.from_bytes(blake3(f"{self._short}/{seed}/{number}".encode()).digest()[:6], "big")
            number += 1
            if self._part == "all" or self._part == _part_of(self._dedup_key(found)):
                missed = 0
                yield found
            else:
                missed += 1

    @cached_property
    def _kind(self) -> Any:
        return world_kind(self.kind)  # once: a class in a file is read anew each time

    def _require_known_options(self) -> None:
        """Raises `OptionError` for an option that neither the family nor its world has."""
        config = getattr(self._kind, "WorldConfig", None)
        if config is None:
            return
        known = ("n", "seed", "part", "check", "wrap", "twins", *config.__struct_fields__)
        unknown = sorted(set(self._config) - set(known))
        if unknown:
            near = nearest(unknown[0], known)
            hint = f"did you mean {near}? " if near else ""
            raise OptionError(
                f"the family {self._short!r} has no option {', '.join(map(repr, unknown))}; {hint}"
                f"known: {', '.join(known)}"
            )

    def _world(self, parameters: dict[str, Any], seed: int) -> Any:
        try:
            return text_world(self._kind, parameters, seed)
        except ValueError as exc:
            raise UserError(str(exc)) from exc

    def _dedup_key(self, seed: int) -> str:
        config = {name: value for name, value in self._config.items() if name != "turns"}
        world = self._world(config, seed)
        dedup_key = getattr(world, "dedup_key", world.state)
        return str(dedup_key())

    def _task(self, seed: int, number: int, world_seed: int, *, solvable: bool) -> Task:
        parameters = dict(self._config)
        if not solvable:
            parameters["solvable"] = False
        if self._wrap:
            parameters[WRAP] = self._wrap
        world = self._world(parameters, world_seed)
        instruction = f"{brief_of(world)}\n{world.reset()}"
        expected = self.naive if self._naive else {"solved": True}
        name = "reported" if self._naive else "solved"
        checks = (Check(name, "facts", {"expected": expected}),)
        spec = EnvironmentSpec(self.kind, parameters, world_seed)
        return Task(
            id=f"{self._id_prefix}-{seed}-{number}" + ("" if solvable else "-twin"),
            instruction=instruction,
            environment=spec,
            checks=checks,
            digest=digest_task(instruction, spec, checks),
            split=None if self._part == "all" else self._part,
            tags=(self._short,) if solvable else (self._short, "unsolvable"),
            source=f"family {self._short}, seed {seed}",
        )


def brief_of(world: Any) -> str:
    """Returns the world's own brief, or the first words of its class documentation."""
    brief = getattr(world, "brief", None)
    return str(brief()) if callable(brief) else (type(world).__doc__ or "Solve the task.").strip().partition("\n")[0]


def _id_prefix(words: Sequence[str], options: Mapping[str, Any]) -> str:
    """Returns what the ids of a family's tasks begin with; other options give other tasks, which need other ids."""
    prefix = "-".join((*words, *(_id_word(name, value) for name, value in sorted(options.items()))))
    return prefix if len(prefix) <= _PREFIX_LENGTH else f"{words[0]}-{_short_digest(prefix)}"


def _id_word(name: str, value: Any) -> str:
    """Returns an option as a word of an id; a value that is long or holds other characters is replaced by a digest."""
    text = value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
    return f"{name}{text if _ID_WORD.fullmatch(text) else _short_digest(text)}"


def _short_digest(text: str) -> str:
    return f".{blake3(text.encode()).hexdigest()[:8]}"


def _part_of(dedup_key: str) -> str:
    return "test" if blake3(dedup_key.encode()).digest()[0] % 4 == 0 else "train"


def _pairs(text: Any) -> Any:
    """Parses a table option. Raises `ValueError`."""
    if not isinstance(text, str):
        return text
    found: dict[str, Any] = {}
    for pair in text.split("+"):
        key, sep, value = pair.partition(":")
        if not sep or not key:
            raise ValueError(f"{pair!r} in {text!r} is not of the form key:value: write min_terms:4+max_terms:6")
        try:
            found[key] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            found[key] = value
    return found


def _wrappers(given: Any, *, twins: bool) -> list[dict[str, Any]]:
    text = str(given)  # what reads as a number is no wrapper's name either, and is told so
    if not text and not twins:
        return []
    found = parse_wrappers(text) if text else []
    return [*found, {"kind": "twin"}] if twins and {"kind": "twin"} not in found else found


def _family(kind: str, summary: str = "", **facts: Any) -> type[WorldTasks]:
    name = "".join(part.capitalize() for part in kind.split("-")) + "Tasks"
    doc = summary or f"Tasks of `{kind}`."
    return type(name, (WorldTasks,), {"__doc__": doc, "__module__": __name__, "kind": kind, **facts})


_CLAIM = "Tasks of `grid`. The naive check believes that the goal was reached where the agent says so."
_GYMNASIUM = "Tasks in a Gymnasium environment: `id=MiniGrid-Empty-5x5-v0,search=2000`."
_SPLIT = "Tasks of `split-constraints`: each actor of a team knows a part of the constraints, a single agent knows all."
_PROBLEMS = "Problems of reasoning-gym: `dataset=chain_sum,config=min_terms:4+max_terms:6`."

AdventureTasks = _family("adventure")
ConstraintsTasks = _family("constraints")
GraphPathTasks = _family("graph-path")
GridTasks = _family("grid", _CLAIM, naive={"claimed": True})
GymnasiumTasks = _family("gymnasium", _GYMNASIUM, tables=frozenset({"options"}))
KeyValueTasks = _family("key-value")
MazeTasks = _family("maze")
ReasoningGymTasks = _family("reasoning-gym", _PROBLEMS, tables=frozenset({"config"}))
SokobanTasks = _family("sokoban")
SplitConstraintsTasks = _family("split-constraints", _SPLIT)
SubsetSumTasks = _family("subset-sum")
TablesTasks = _family("tables")
TextArenaTasks = _family("textarena", "Games of TextArena for one player: `id=TowerOfHanoi-v0`.")
