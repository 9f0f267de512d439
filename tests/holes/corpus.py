"""The tasks here and what is known of their holes."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from assay.tasks import LoadedTask, load_task

__all__ = ["HERE", "KINDS", "SETTINGS", "Hole", "Kind", "Known", "table", "tasks_in"]

HERE = Path(__file__).parent
Kind = Literal["holed", "sound", "missed"]
KINDS: tuple[Kind, ...] = ("holed", "sound", "missed")
SETTINGS = frozenset({
    "altered programs", "clean PATH", "clean configuration", "clean environment", "fresh rewards", "links refused",
    "no agent process alive", "recorded test runner", "suspicions", "tests mounted read-only",
    "the verifier's own storage",
})  # fmt: skip
"""What of the default verification can close a hole. `suspicions`: changed files newly reach for what no honest work
needs, and a pass is not believed. `altered programs`: a pass is not believed that comes again when all that a script's
programs expect is changed."""


class Hole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task's `hole.toml`."""

    hole: str
    """What is wrong, in a sentence."""
    cheats: tuple[str, ...]
    """The cheats that it is for; admission must find one of them to get through."""
    default: Literal["fails", "passes"] = "fails"
    """What Assay's default verification makes of all of them."""
    closed_by: tuple[str, ...] = ()
    """What of the default verification closes it; the words are in `SETTINGS`."""
    incident: str | None = None
    """The address of a report of something that happened, where the verifier was written from one."""


class Known(NamedTuple):
    """A task and its hole; None of a sound one."""

    loaded: LoadedTask
    hole: Hole | None

    @property
    def name(self) -> str:
        return self.loaded.task.id.removeprefix("holes/")


@cache
def tasks_in(kind: Kind) -> dict[str, Known]:
    """The tasks of one kind by name, sorted."""
    found = {}
    for folder in sorted(path.parent for path in (HERE / kind).glob("*/task.toml")):
        told = folder / "hole.toml"
        hole = msgspec.convert(tomllib.loads(told.read_text()), Hole) if told.exists() else None
        found[folder.name] = Known(load_task(folder), hole)
    return found


def table() -> str:
    """All holes as a table: what README.md has."""
    rows = ["| task | its hole | found by | by default | what closes it |", "|---|---|---|---|---|"]
    kinds: tuple[Kind, ...] = ("holed", "missed")
    for kind in kinds:
        for known in tasks_in(kind).values():
            if known.hole is not None:
                rows.append(_row(kind, known.name, known.hole))
    return "\n".join(rows) + "\n"


def _row(kind: Kind, name: str, hole: Hole) -> str:
    found = ", ".join(hole.cheats) if hole.cheats else "no listed cheat"
    default = "not found either" if kind == "missed" else hole.default
    told = f" ([report]({hole.incident}))" if hole.incident else ""
    return f"| {name} | {hole.hole}{told} | {found} | {default} | {', '.join(hole.closed_by) or '-'} |"
