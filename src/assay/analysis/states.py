"""Equivalence of acts: their features, and when two sets of features are equivalent.

After AgentLens (arXiv 2605.12925): equal features, else a heuristic by kind of act (the same file with overlapping
lines, the same normalised command, a similar search); its third tier, a model, is omitted. The bounds are published,
the normalisation is ours. Equivalence is symmetric and reflexive, not transitive.

Misleading: paths are compared without a leading folder such as `testbed` or `workspace`, so two working copies of one
repository are equal, but two different repositories may be too.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Hashable, Sequence
from functools import lru_cache

import msgspec

from ._files import command_files
from ._memo import cached_by_identity
from .actions import written_paths
from .commands import simple_commands
from .interface import Action, ActionKind
from .stages import Stage, stages_of

_ROOTS = re.compile(
    r"^(?:/*(?:testbed|workspace|workdir|repo|repository|app|src/repo|code|project|home/[^/]+|root|agent/workspace/local)"
    r"/)+"
)
_IN_COMMAND = re.compile(r"(?<![\w.])/(?:testbed|workspace|workdir|repo|repository|app|project|root)/")
_SHOWING = frozenset({"head", "tail", "cat", "tee", "less", "more"})
_OVERLAP = 0.3
_ARGUMENTS = 0.5
_QUERIES = 0.8
_MOST_WORDS = 400
_MOST_TEXT = 8192
ATTEMPTS = 8
"""Attempts whose states are cached: the one that is judged, and those that it is compared with."""


class State(msgspec.Struct, frozen=True):
    """An act as a node of a graph."""

    stage: Stage
    kind: ActionKind
    tool: str
    file: str = ""
    """Its one file, normalised; empty if absent or unknown."""
    what: str = ""
    """Normalised command, query, arguments of another tool, or text of an edit."""
    lines: tuple[int, int] | None = None
    """First and last viewed line, from 1; None for the whole file, or unknown."""


def normal_path(path: str) -> str:
    """Returns a path without leading slashes and the folder in which a harness puts a repository."""
    cut = _ROOTS.sub("", path.strip() + "/").strip("/")
    return posixpath.normpath(cut) if cut else ""


def normal_command(command: str) -> str:
    """Returns a command without `cd`, redirections and output filters, with paths as of `normal_path`.

    Text after the first 8,192 characters is dropped.
    """
    return _normal(command[:_MOST_TEXT])


@lru_cache(maxsize=4096)
def _normal(command: str) -> str:
    shown: list[str] = []
    for each in simple_commands(command):
        if each.depth or not each.words or each.program in ("cd", "export", "source"):
            continue
        if each.joined == "|" and each.program in _SHOWING and shown:
            continue
        words = _IN_COMMAND.sub("", " ".join(each.words[:_MOST_WORDS]))
        shown.append(words if each.stdin is None else f"{words} << {each.stdin}")
    return " ; ".join(shown)


def states_of(actions: Sequence[Action], stages: Sequence[Stage] | None = None) -> tuple[State, ...]:
    """Returns the acts of one attempt as states, with the given stages or those of `stages_of`."""
    if stages is None:
        return _states(tuple(actions))
    return tuple(_state(action, stage) for action, stage in zip(actions, stages, strict=True))


@cached_by_identity(ATTEMPTS)
def _states(actions: tuple[Action, ...]) -> tuple[State, ...]:
    return tuple(_state(action, stage) for action, stage in zip(actions, stages_of(actions), strict=True))


def _state(action: Action, stage: Stage) -> State:
    file, what = "", ""
    if action.command is not None and action.kind in ("shell", "finish"):
        what = normal_command(action.command)
        written = command_files(action.command).written if stage == "implement" else ()
        file = normal_path(written[0]) if len(written) == 1 else ""
    elif action.kind in ("read", "edit"):
        file = normal_path(action.paths[-1]) if action.paths else ""
        what = action.text if action.kind == "edit" else ""
    elif action.kind in ("search", "browse"):
        file = normal_path(action.paths[-1]) if action.paths else ""
        what = _query(action)
    elif action.kind == "tool":
        what = _query(action)
        file = normal_path((written_paths(action) or ("",))[0])
    lines = _lines(action) if action.kind == "read" else None
    return State(stage, action.kind, action.tool, file, what, lines)


def _query(action: Action) -> str:
    """Returns the arguments in a stable order, without the harness's own remarks."""
    skipped = ("thought", "security_risk", "description", "explanation")
    held = {key: value for key, value in action.arguments.items() if key not in skipped}
    return msgspec.json.encode(held, order="sorted").decode()


def _lines(action: Action) -> tuple[int, int] | None:
    given = action.arguments.get("view_range")
    if not isinstance(given, list):
        first = next((action.arguments.get(key) for key in ("start_line", "startLine", "start", "offset")), None)
        last = next((action.arguments.get(key) for key in ("end_line", "endLine", "end")), None)
        given = [first, last]
    if len(given) != 2 or not all(type(each) is int for each in given) or not 0 < given[0] <= given[1]:
        return None
    return given[0], given[1]


def block(state: State) -> Hashable:
    """Returns a key shared by equivalent states: states of different blocks need not be compared."""
    if state.kind in ("edit", "read"):
        narrow = state.file
    elif state.kind == "shell":
        narrow = state.file or " " + state.what.split(" ", 1)[0]
    else:
        narrow = "" if state.kind in ("think", "say", "finish") else " " + state.tool
    return state.stage, state.kind, narrow


def equivalent(a: State, b: State) -> bool:
    """Returns whether two states are of the same act. States of different stages never are."""
    if a.stage != b.stage or a.kind != b.kind:
        return False
    if a == b or a.kind in ("think", "say", "finish"):
        return True
    if a.kind == "edit":
        return bool(a.file) and a.file == b.file
    if a.kind == "read":
        return bool(a.file) and a.file == b.file and _overlap(a.lines, b.lines) >= _OVERLAP
    if a.kind == "shell":
        return _same_command(a, b)
    if a.kind in ("search", "browse"):
        return a.tool == b.tool and _alike(a.what, b.what) > _QUERIES
    return a.tool == b.tool and a.what == b.what


def _same_command(a: State, b: State) -> bool:
    """Compares commands that write one file by that file."""
    if a.file or b.file:
        return a.file == b.file
    if not a.what or not b.what:
        return False
    if a.what == b.what:
        return True
    first, second = a.what.split(" ", 1), b.what.split(" ", 1)
    return first[0] == second[0] and _alike(first[-1], second[-1]) >= _ARGUMENTS


def _overlap(a: tuple[int, int] | None, b: tuple[int, int] | None) -> float:
    if a is None or b is None:
        return 1.0
    common = min(a[1], b[1]) - max(a[0], b[0]) + 1
    return max(common, 0) / (max(a[1], b[1]) - min(a[0], b[0]) + 1)


@lru_cache(maxsize=8192)
def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[\w./:-]+", text)[:_MOST_WORDS])


def _alike(a: str, b: str) -> float:
    """Returns the Jaccard index of the words of two texts; 1 if both are empty."""
    first, second = _words(a[:_MOST_TEXT]), _words(b[:_MOST_TEXT])
    return len(first & second) / len(first | second) if first or second else 1.0
