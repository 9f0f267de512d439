"""One version line: a chained ledger of release candidates, each with the gate's decision against the release before.

`STORE/releases/NAME.jsonl`. The first record's base begins the line; an accepted candidate is the release from then on,
and the next candidate is compared with it. After AgentDevel's release engineering (catalogued
from its abstract). A ledger decides nothing: it says which decision was made on what.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.errors import UserError
from assay.records import digest_record
from assay.statistics import GateDecision, GateRule, PairedComparison
from assay.store.chained_file import ChainedFile
from assay.store.layout import RUN_NAME


class ReleaseEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One decision."""

    candidate: str
    """RUN, RUN:AGENT or RUN:AGENT:MODEL, as the command was given it; so is the base."""
    base: str
    accepted: bool
    reasons: tuple[str, ...]
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    """Tasks whose result flipped."""
    tasks: str
    """Digest of the compared tasks."""
    number: int
    """Decisions on these tasks in this line, this one included: each further one is another chance to be lucky."""
    at: float
    previous: str = ""
    rule: GateRule | msgspec.UnsetType = msgspec.UNSET
    """The rule that the decision was made by."""

    @property
    def digest(self) -> str:
        """Returns the content address."""
        return digest_record(self)


class ReleaseLine(NamedTuple):
    """A line as it stands."""

    name: str
    release: str
    """The configuration that was accepted last; the first base where none was."""
    entries: tuple[ReleaseEntry, ...]

    @property
    def anchor(self) -> str:
        """Returns the release that was accepted as better last, the first base where none was. What is accepted as not
        worse is compared with it, too: losses that chance explains one by one would add up along the line."""
        better = [
            one.candidate
            for one in self.entries
            if one.accepted and not isinstance(one.rule, msgspec.UnsetType) and one.rule.want == "better"
        ]
        return better[-1] if better else self.entries[0].base


def read_line(store: Path, name: str) -> ReleaseLine | None:
    """Returns a line; None where it has no entry.

    Raises:
        UserError: The name cannot name a file.
        StoreError: The ledger was changed.
    """
    entries = tuple(_ledger(store, name).read())
    if not entries:
        return None
    accepted = [one.candidate for one in entries if one.accepted]
    return ReleaseLine(name, accepted[-1] if accepted else entries[0].base, entries)


def line_names(store: Path) -> list[str]:
    """Returns the names of all lines, sorted."""
    folder = store / "releases"
    return sorted(path.stem for path in folder.glob("*.jsonl")) if folder.is_dir() else []


def require_next(line: ReleaseLine | None, base: str, candidate: str) -> None:
    """Raises `UserError` where a comparison does not continue a line."""
    if line is None:
        return
    if not is_same_configuration(base, line.release):
        raise UserError(
            f"the release of line {line.name!r} is {line.release!r}, not {base!r}: compare the candidate with it"
        )
    tried = next((one for one in line.entries if is_same_configuration(one.candidate, candidate)), None)
    if tried is not None:
        word = "accepted" if tried.accepted else "refused"
        raise UserError(f"{candidate!r} was {word} in line {line.name!r} before: a candidate is decided once")


def is_same_configuration(one: str, other: str) -> bool:
    """Returns whether two names are of one configuration: what is left out of `RUN:AGENT:MODEL` was the only one."""
    parts, others = ([*name.split(":", 2), "", ""][:3] for name in (one, other))
    return parts[0] == others[0] and all(a == b or not a or not b for a, b in zip(parts, others, strict=True))


def record_decision(
    store: Path, name: str, base: str, candidate: str, paired: PairedComparison, ruling: GateDecision
) -> ReleaseEntry:
    """Appends a decision. Raises as `require_next`."""
    ledger = _ledger(store, name)
    tasks = digest_record(sorted(paired.tasks))
    with ledger.locked() as append:
        require_next(read_line(store, name), base, candidate)
        entries = ledger.read()
        entry = ReleaseEntry(
            candidate, base, ruling.accepted, ruling.reasons, tuple(one.task for one in paired.gained),
            tuple(one.task for one in paired.lost), tasks, 1 + sum(one.tasks == tasks for one in entries), time.time(),
            entries[-1].digest if entries else "", ruling.rule,
        )  # fmt: skip
        append(entry)
    return entry


def _ledger(store: Path, name: str) -> ChainedFile[ReleaseEntry]:
    if not RUN_NAME.fullmatch(name):
        raise UserError(f"{name[:80]!r} cannot name a line of releases: use letters, digits and hyphens")
    return ChainedFile(store / "releases" / f"{name}.jsonl", ReleaseEntry)
