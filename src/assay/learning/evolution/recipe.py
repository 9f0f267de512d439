"""The recipe of `assay evolve`; imports nothing heavy, so that `--help` stays fast."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from assay.errors import UserError
from assay.records import digest_record

MOST_CANDIDATES = 500
CODE = "code"
"""The option that stands for the agent's code, where `[code]` names it."""
Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class EvolveSearchOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[search]`: where and how configurations are compared; nothing of it decides."""

    tasks: tuple[str, ...]
    """Tasks of the search: task folders, or families as `family:NAME,n=60,seed=1`."""
    method: Literal["coordinate", "grid", "halving", "racing", "designs", "gepa", "mutate"] = "coordinate"
    """`coordinate`: one option after the other, the best value of each is kept. `grid`: all combinations on all tasks.
    `halving`: all combinations on a part of the tasks, the better half on twice as many, and so on. `racing`:
    all combinations on one part of the tasks after the other; one that a paired test says is behind another is dropped.
    `designs`: a designer draws combinations and learns from their outcomes. `gepa`: texts, by the library GEPA.
    `mutate`: a model changes the agent's code, from the best version so far."""
    attempts: Count = 1
    """Attempts at each task."""
    sweeps: Count = 1
    """Times that `coordinate` goes over all options."""
    rounds: Count = 8
    """Rounds of `designs`, and equal parts of the tasks after which `racing` looks."""
    level: Share = 0.05
    """Chance of at most this that `racing` drops a combination to which no other is superior."""
    designs: Annotated[int, msgspec.Meta(ge=2)] = 4
    """Designs that it draws in a round."""
    batch: Count = 8
    """Tasks of a round, on which each of them is executed `attempts` times."""
    calls: Count = 200
    """Attempts that `gepa` may make."""
    proposer: str | None = None
    """Model that writes the new texts of `gepa`, or the code of `mutate`, from verdicts and evidence; without one the
    texts of `gepa` are the values of `space` in turn."""
    proposals: Count = 8
    """Versions of the code that `mutate` asks the proposer for."""
    seed: int = 0
    """Seed of the runs, the same for all candidates."""


class EvolveGateOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[gate]`: the one decision, on tasks that the search never saw."""

    tasks: tuple[str, ...]
    """Held-out tasks."""
    attempts: Count = 1
    """Attempts at each task with each of the two configurations."""
    looks: Annotated[int, msgspec.Meta(ge=1, le=20)] = 3
    """Times the result is looked at."""
    alpha: Share = 0.05
    """Level that is asked of the tasks' error budget. A configuration that is no better is accepted in at most 0.6 of
    it."""
    seed: int = 1
    """Seed of the runs, the same for both configurations."""


class EvolveCodeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[code]`: code of the agent `command` that may change; it runs in the sandbox alone."""

    folder: str
    """Folder of the agent's program on this machine, or the program. A candidate is a copy of it with changed files."""
    target: str
    """Where the sandbox shows it, read-only."""
    files: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("*",)
    """Patterns of the paths below the folder that may change; `*` matches `/` too."""


class EvolveRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options that may change, tasks for the search, and tasks for the decision."""

    name: str
    """Name of the search: of its ledger, and the beginning of its runs' names."""
    agent: str
    """Agent, as `assay run --agent` takes it."""
    search: EvolveSearchOptions
    gate: EvolveGateOptions
    space: dict[str, list[Any]] = {}
    """Options of the agent that may change, each with its values. Those of `code`, with `[code]`, are unified diffs and
    folders of files that replace the agent's."""
    code: EvolveCodeOptions | None = None
    """Code of the agent that may change."""
    base: dict[str, Any] = {}
    """Options of the present configuration, the one to beat."""
    model: str | None = None
    """Model of the agent, if it needs one."""
    contracts: tuple[str, ...] = ()
    """Safety contracts of every attempt, as TOML files: safety becomes a third measure, and a winner that breaks them
    in more attempts than the present configuration is refused."""
    concurrency: Count = 4
    """Attempts at a time."""

    def __post_init__(self) -> None:
        """Rejects a search that cannot work."""
        if not self.name.replace("-", "").isalnum() or len(self.name) > 30:
            raise UserError(f"name is {self.name!r}: take at most 30 letters, digits and hyphens")
        empty = [option for option, values in self.space.items() if not values]
        if empty or not (self.space or self.search.method == "mutate"):
            raise UserError(f"space has no values{f' for {empty[0]!r}' if empty else ''}: write option = [value, ...]")
        size = 1
        for values in self.space.values():
            size *= len(values)
        if self.search.method in ("grid", "halving", "racing") and size > MOST_CANDIDATES:
            raise UserError(f"space has {size:,} combinations; at most {MOST_CANDIDATES}: take method = 'coordinate'")
        if self.search.method == "gepa":
            self._require_texts()
        self._require_code()

    def _require_texts(self) -> None:
        for option, values in self.space.items():
            if not all(isinstance(value, str) for value in (self.base.get(option), *values)):
                raise UserError(f"method = 'gepa' changes texts alone: give {option!r} a text in [base] and in [space]")

    def _require_code(self) -> None:
        if self.code is not None and self.agent != "command":
            raise UserError(
                f"[code] is of the agent 'command', whose program runs in the sandbox; code of {self.agent!r} would "
                "run in this process: make it a program, or remove [code]"
            )
        if self.code is None and self.search.method == "mutate":
            raise UserError("method = 'mutate' changes the agent's code: name its folder in [code]")
        if self.search.method == "mutate" and (self.search.proposer is None or set(self.space) - {CODE}):
            raise UserError(
                "method = 'mutate' has a model write code: name it as proposer, and leave other options than code to a "
                "search of their own"
            )

    @property
    def digest(self) -> str:
        """Returns the content address."""
        return digest_record(msgspec.to_builtins(self))

    def combinations(self) -> Iterator[dict[str, Any]]:
        """Yields the base and then all combinations of the space, without repetition."""
        seen = set[str]()
        products = itertools.product(*self.space.values())
        for options in (self.base, *({**self.base, **dict(zip(self.space, one, strict=True))} for one in products)):
            digest = digest_record(options)
            if digest not in seen:
                seen.add(digest)
                yield options
