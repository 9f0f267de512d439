"""The views of ledgers: skills with their edits and trials, searches over configurations with their gates, lines of
releases, and tables that verbs saved.

A ledger is a file of the store in which each line names the digest of the line before it. What is in it is untrusted:
fields of other types than expected are left out, texts are cut, and a broken chain is reported with what was read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.errors import UserError
from assay.records import digest_bytes
from assay.store import list_runs
from assay.store.chained_file import open_ledger

from .interface import View, json_bytes

MOST_BYTES = 64 << 20
MOST_ENTRIES = 2_000
MOST_LEDGERS = 500
MOST_TEXT = 4_000
MOST_DEPTH = 32
"""Levels of nested values that are shown."""
MOST_ROWS = 5_000
"""Rows of all tables of one page, the newest tables first."""
MOST_CELLS = 60_000
_MOST_NAMES = 1_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_KINDS = {
    "skill": "skills/{}/ledger.jsonl",
    "evolution": "evolution/{}.jsonl",
    "releases": "releases/{}.jsonl",
    "tables": "tables/{}.jsonl",
}
_HOLDOUTS = "skills/holdouts.jsonl"
_USE = ("version", "alpha", "left", "earlier", "at")


class Ledger(NamedTuple):
    """The lines of a ledger, oldest first."""

    entries: list[dict[str, Any]]
    problem: str | None
    """Why the file is not what was written; None if its chain holds."""
    left_out: int


def read_ledger(path: Path) -> Ledger:
    """Reads a ledger up to the line that does not fit; a last line without a newline is ignored.

    Raises:
        UserError: There is no such file, or something else is in its place.
    """
    try:
        with open_ledger(path) as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as exc:
        raise UserError(f"there is no ledger {path.name}: {exc.strerror}") from exc
    if len(data) > MOST_BYTES:
        return Ledger([], f"the file is larger than {MOST_BYTES >> 20} MiB", 0)
    entries, previous, problem = list[dict[str, Any]](), "", None
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            entry = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            problem = f"line {number} is damaged"
            break
        if entry.get("previous", "") != previous:
            problem = f"line {number}: a line before it was changed, added or removed"
            break
        previous = digest_bytes(line)
        entries.append(entry)
    return Ledger(entries[-MOST_ENTRIES:], problem, max(0, len(entries) - MOST_ENTRIES))


def list_ledgers(root: Path) -> dict[str, Any]:
    """Returns `skills`, `evolutions`, `releases` and `tables`, each with `name`, `entries`, `state` and `problem`."""
    left = MOST_BYTES
    listed: dict[str, list[dict[str, Any]]] = {}
    for title, pattern, state in (
        ("skills", "skills/*/ledger.jsonl", _skill_state),
        ("evolutions", "evolution/*.jsonl", _search_state),
        ("releases", "releases/*.jsonl", _release_state),
        ("tables", "tables/*.jsonl", _last_verb),
    ):
        listed[title] = []
        for path in sorted(root.glob(pattern))[:MOST_LEDGERS]:
            ledger, size = _read_within(path, left)
            left -= size
            name = path.parent.name if path.name == "ledger.jsonl" else path.stem
            entries = len(ledger.entries) + ledger.left_out
            listed[title].append(
                {"name": name, "entries": entries, "state": state(ledger.entries), "problem": ledger.problem}
            )
    return listed


def _read_within(path: Path, left: int) -> tuple[Ledger, int]:
    """Returns a ledger and its size in bytes; one without entries that says why if it cannot be read, or not within
    the bytes that are left for the list."""
    try:
        size = path.lstat().st_size
        if size > left:
            return Ledger([], f"not read for this list, which reads at most {MOST_BYTES >> 20} MiB: open it", 0), 0
        return read_ledger(path), size
    except (OSError, UserError) as exc:
        return Ledger([], str(exc), 0), 0


def _skill_state(entries: Sequence[Mapping[str, Any]]) -> str:
    """Returns what the last trial or retirement made of the skill."""
    for entry in reversed(entries):
        if entry.get("kind") == "retire":
            return "retired"
        trial = entry.get("trial")
        if isinstance(trial, dict):
            return "accepted" if trial.get("accepted") is True else "refused"
    return "candidate"


def _search_state(entries: Sequence[Mapping[str, Any]]) -> str:
    gates = [entry.get("accepted") for entry in entries if entry.get("kind") == "gate"]
    return "searching" if not gates else "accepted" if gates[-1] is True else "refused"


def _release_state(entries: Sequence[Mapping[str, Any]]) -> str:
    """Returns the decision on the last candidate."""
    return "accepted" if entries and entries[-1].get("accepted") is True else "refused"


def show_releases(root: Path, name: str) -> dict[str, Any]:
    """Returns a line of releases: the present `release`, and `entries` (oldest first, as recorded)."""
    ledger = read_ledger(_ledger_path(root, "releases", name))
    accepted = [str(one.get("candidate")) for one in ledger.entries if one.get("accepted") is True]
    named = [str(one.get(side)).partition(":")[0] for one in ledger.entries for side in ("candidate", "base")]
    first = str(ledger.entries[0].get("base")) if ledger.entries else ""
    return {
        "name": name,
        "state": _release_state(ledger.entries),
        "release": _cut(accepted[-1] if accepted else first),
        "entries": [
            _cut(
                {
                    "candidate": str(one.get("candidate")),
                    "base": str(one.get("base")),
                    "accepted": one.get("accepted") is True,
                    "reasons": _texts(one.get("reasons")),
                    "gained": _texts(one.get("gained")),
                    "lost": _texts(one.get("lost")),
                    "number": _number(one.get("number")),
                    "at": _number(one.get("at")),
                }
            )
            for one in ledger.entries
        ],
        "problem": ledger.problem,
        "left_out": ledger.left_out,
        "runs": _known_runs(root, named),
    }


def _last_verb(entries: Sequence[Mapping[str, Any]]) -> str:
    return str(entries[-1].get("verb"))[:200] if entries else ""


def show_tables(root: Path, name: str) -> dict[str, Any]:
    """Returns saved tables: `entries` (the newest first), each with `verb`, `columns`, `rows`, `chains` and `notes`."""
    ledger = read_ledger(_ledger_path(root, "tables", name))
    entries, rows, cells = list[dict[str, Any]](), MOST_ROWS, MOST_CELLS
    for entry in reversed(ledger.entries):
        rows -= _count(entry.get("rows"))
        cells -= _count(entry.get("rows")) * _count(entry.get("columns"))
        if rows < 0 or cells < 0:
            break
        entries.append(_saved_table(entry))
    named = [run for one in entries for run in one["runs"]]
    return {
        "name": name,
        "state": _last_verb(ledger.entries),
        "entries": _cut(entries),
        "problem": ledger.problem,
        "left_out": ledger.left_out + len(ledger.entries) - len(entries),
        "runs": _known_runs(root, named),
    }


def _saved_table(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a saved table with as many cells in each row as there are columns."""
    columns, rows = _texts(entry.get("columns")), entry.get("rows")
    listed = [[*_texts(row), *[""] * len(columns)][: len(columns)] for row in rows] if isinstance(rows, list) else []
    chains = _texts(entry.get("chains"))
    return {
        "verb": str(entry.get("verb")),
        "runs": _texts(entry.get("runs"))[:_MOST_NAMES],
        "columns": columns,
        "rows": listed,
        "chains": chains if len(chains) == len(listed) else [],
        "notes": _texts(entry.get("notes"))[:_MOST_NAMES],
        "at": _number(entry.get("at")),
    }


def show_skill(root: Path, name: str) -> dict[str, Any]:
    """Returns a skill's ledger: `entries` (oldest first, as recorded), and `uses` of holdouts by its trials."""
    ledger = read_ledger(_ledger_path(root, "skill", name))
    try:
        holdouts = read_ledger(root / _HOLDOUTS)
    except UserError:
        holdouts = Ledger([], None, 0)
    uses = [
        {
            **{key: use.get(key) for key in ("version", "alpha", "left", "earlier", "at")},
            "tasks": _count(use.get("tasks")),
        }
        for use in holdouts.entries
        if use.get("skill") == name
    ]
    return {
        "name": name,
        "state": _skill_state(ledger.entries),
        "entries": [_cut(entry) for entry in ledger.entries],
        "uses": _cut(uses),
        "problem": ledger.problem or holdouts.problem,
        "left_out": ledger.left_out,
        "runs": _known_runs(root, _cited_runs(ledger.entries)),
    }


def show_evolution(root: Path, name: str) -> dict[str, Any]:
    """Returns a search: `candidates`, each with `on_front` among those on as many tasks, the `gate`, or None, the
    `proposals` of a model, and the versions of `code`, each with `digest`, `diff`, `accepted` and `reasons`."""
    ledger = read_ledger(_ledger_path(root, "evolution", name))
    found = [entry for entry in ledger.entries if entry.get("kind") == "candidate"]
    gates = [entry for entry in ledger.entries if entry.get("kind") == "gate"]
    runs = [run for entry in (*found, *gates) for run in _texts(entry.get("runs"))]
    return {
        "name": name,
        "state": _search_state(ledger.entries),
        "candidates": [
            _cut({**_candidate(one), "on_front": on_front})
            for one, on_front in zip(found, _on_front(found), strict=True)
        ],
        "gate": _cut({**_candidate(gates[-1]), "reasons": _texts(gates[-1].get("reasons"))}) if gates else None,
        "proposals": [
            str(entry.get("text"))[:MOST_TEXT] for entry in ledger.entries if entry.get("kind") == "proposal"
        ],
        "code": [_cut(_tried_code(entry)) for entry in ledger.entries if entry.get("kind") == "code"],
        "problem": ledger.problem,
        "left_out": ledger.left_out,
        "runs": _known_runs(root, runs),
    }


def _candidate(entry: Mapping[str, Any]) -> dict[str, Any]:
    options = entry.get("options")
    return {
        "options": options if isinstance(options, dict) else {},
        "tasks": _number(entry.get("tasks")),
        "rate": _number(entry.get("rate"), 0, 1),
        "base_rate": _number(entry.get("base_rate"), 0, 1),
        "turns": _number(entry.get("turns"), 0),
        "credit": _number(entry.get("credit")),
        "unsafe": _number(entry.get("unsafe"), 0, 1),
        "runs": _texts(entry.get("runs")),
        "accepted": entry.get("accepted") is True,
    }


def _tried_code(entry: Mapping[str, Any]) -> dict[str, Any]:
    options = entry.get("options")
    return {
        "digest": str(options.get("code")) if isinstance(options, dict) else "",
        "diff": str(entry.get("text", "")),
        "accepted": entry.get("accepted") is True,
        "reasons": _texts(entry.get("reasons")),
    }


def _on_front(every: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Returns for each candidate whether none on as many tasks is better in success, turns or safety and no worse in
    the rest."""
    costs = [_costs(one) for one in every]
    groups: dict[float | None, set[tuple[float, float, float]]] = {}
    for one, own in zip(every, costs, strict=True):
        if own is not None:
            groups.setdefault(_number(one.get("tasks")), set()).add(own)
    fronts = {tasks: _undominated(group) for tasks, group in groups.items()}
    return [own is not None and own in fronts[_number(one.get("tasks"))] for one, own in zip(every, costs, strict=True)]


def _undominated(costs: Iterable[tuple[float, float, float]]) -> set[tuple[float, float, float]]:
    """Returns the costs that no other ones are below in one value and above in none."""
    front: list[tuple[float, float, float]] = []
    for own in sorted(costs):  # one that is better in the first value comes before
        if not any(other[1] <= own[1] and other[2] <= own[2] for other in front):
            front.append(own)
    return set(front)


def _costs(entry: Mapping[str, Any]) -> tuple[float, float, float] | None:
    rate, turns = _number(entry.get("rate")), _number(entry.get("turns"))
    return None if rate is None or turns is None else (-rate, turns, _number(entry.get("unsafe")) or 0.0)


def _ledger_path(root: Path, kind: str, name: str) -> Path:
    if _NAME.fullmatch(name) is None:
        raise UserError(f"{name[:100]!r} names no {kind}")
    return root / _KINDS[kind].format(name)


def _cited_runs(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the runs of trials and of claims' evidence."""
    trials = [entry["trial"] for entry in entries if isinstance(entry.get("trial"), dict)]
    arms = [arm for trial in trials for arm in _dicts(trial.get("arms"))]
    claims = [claim for entry in entries for claim in _dicts(entry.get("claims"))]
    cited = [str(one.get("run")) for claim in claims for one in _dicts(claim.get("evidence"))]
    return [*cited, *(run for arm in arms for run in _texts(arm.get("runs")))]


def _known_runs(root: Path, named: Sequence[str]) -> list[str]:
    """Returns the runs that the store holds, so that a page links no others."""
    return sorted(set(named) & set(list_runs(root)))


def _number(value: object, least: float = -1e12, most: float = 1e12) -> float | None:
    """Returns a number within bounds; None for anything else, which no figure could show."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and least <= value <= most else None  # type: ignore[arg-type, operator]


def _dicts(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _count(value: object) -> int:
    return len(value) if isinstance(value, list) else 0


def _cut(value: Any, depth: int = MOST_DEPTH) -> Any:
    """Returns plain data with its texts cut, and what is nested too deeply left out."""
    if isinstance(value, str):
        return value if len(value) <= MOST_TEXT else f"{value[:MOST_TEXT]}… ({len(value) - MOST_TEXT} characters more)"
    if isinstance(value, dict | list) and not depth:
        return "…"
    if isinstance(value, dict):
        return {str(key)[:200]: _cut(one, depth - 1) for key, one in value.items()}
    return [_cut(one, depth - 1) for one in value] if isinstance(value, list) else value


def _no_names(_: Path, __: str) -> tuple[str, ...]:
    return ()  # ledgers are of a store, and an export is of one run


VIEWS = (
    View("ledgers", lambda root, _: json_bytes(list_ledgers(root)), _no_names),
    View("skill/{name}", lambda root, fields: json_bytes(show_skill(root, fields["name"])), _no_names),
    View("releases/{name}", lambda root, fields: json_bytes(show_releases(root, fields["name"])), _no_names),
    View("tables/{name}", lambda root, fields: json_bytes(show_tables(root, fields["name"])), _no_names),
    View("evolution/{name}", lambda root, fields: json_bytes(show_evolution(root, fields["name"])), _no_names),
)
