"""The skills of a store: versions as folders, and a hash-chained ledger of everything that happened to each skill.

<store>/skills/<name>/ledger.jsonl               imports, distillations, edits, trials, retirement
<store>/skills/<name>/versions/<hex>/<name>/     the files of one version, as harnesses load them
<store>/skills/<name>/placebos/<hex>/<name>/     the control of that version in trials

Invariant: a version is released only by an accepted trial of exactly its bytes, and never after it was retired; a
version's files are read again and compared with its digest before they are used.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.errors import StoreError, UserError
from assay.store.chained_file import ChainedFile
from assay.store.layout import RUN_NAME

from .edits import apply_edits
from .folder import SkillFolder, place_skill, read_skill, validate_skill
from .holdouts import HOLDOUT_FILE
from .records import Claim, EditProposal, EntryKind, SkillEntry, SkillState, SkillTier, TrialRecord


class SkillSummary(NamedTuple):
    """The present standing of a skill."""

    name: str
    version: str
    """The newest version, whatever its state."""
    state: SkillState
    """Of the newest version."""
    released: str | None
    """The version whose trial was accepted last and that is not retired; None without one."""
    claims: tuple[Claim, ...]
    """Those of the newest version."""
    rejected: tuple[SkillEntry, ...]
    """Edits whose trial refused them, oldest first."""
    entries: tuple[SkillEntry, ...]

    @property
    def base(self) -> str:
        """Returns the version that edits change: the released one, or the newest that no trial refused."""
        if self.released is not None:
            return self.released
        refused = {entry.version for entry in self.rejected}
        return next(
            (e.version for e in reversed(self.entries) if _adds_version(e) and e.version not in refused), self.version
        )

    @property
    def tier(self) -> SkillTier:
        """Returns how the released version is offered: as it was moved last, else `new`; without one `candidate`."""
        if self.released is None:
            return "candidate"
        of_released = (entry for entry in reversed(self.entries) if entry.version == self.released)
        last = next((e for e in of_released if e.tier is not None or (e.trial is not None and e.trial.accepted)), None)
        return "new" if last is None or last.tier is None else last.tier

    def claims_of(self, version: str) -> tuple[Claim, ...]:
        """Returns the claims of a version, as it was last added."""
        return next((e.claims for e in reversed(self.entries) if _adds_version(e) and e.version == version), ())


def _adds_version(entry: SkillEntry) -> bool:
    return entry.kind in ("import", "distil", "edit")


def summarise_entries(name: str, entries: Sequence[SkillEntry]) -> SkillSummary:
    """Returns the standing that a ledger gives, which adds one version or more."""
    states: dict[str, SkillState] = {}
    accepted, rejected = list[str](), list[SkillEntry]()
    edits = {entry.version: entry for entry in entries if entry.kind == "edit"}
    for entry in entries:
        if _adds_version(entry):
            # Adding the same bytes again changes nothing, unless they were retired in between.
            if states.get(entry.version, "retired") == "retired":
                states[entry.version] = "candidate"
        elif entry.kind == "retire":
            states = dict.fromkeys(states, "retired")
            accepted.clear()
        elif entry.trial is not None and states.get(entry.version) != "retired":  # a trial may end after a retirement
            states[entry.version] = "released" if entry.trial.accepted else "refused"
            accepted = [version for version in accepted if version != entry.version]
            if entry.trial.accepted:
                accepted.append(entry.version)
            elif entry.version in edits:
                rejected.append(edits[entry.version])
    newest = next(entry for entry in reversed(entries) if _adds_version(entry))
    released = accepted[-1] if accepted else None
    return SkillSummary(
        name, newest.version, states[newest.version], released, newest.claims, tuple(rejected), tuple(entries)
    )


class SkillLibrary:
    """The skills of one store."""

    def __init__(self, store: Path) -> None:
        self.folder = store / "skills"

    def names(self) -> list[str]:
        """Returns the names of all skills, sorted."""
        if not self.folder.is_dir():
            return []
        return sorted(ledger.parent.name for ledger in self.folder.glob("*/ledger.jsonl") if ledger.stat().st_size)

    def entries(self, name: str) -> list[SkillEntry]:
        """Returns a skill's ledger. Raises `UserError` for an unknown name, `StoreError` for a changed ledger."""
        entries = self._ledger(name).read()
        if not entries:
            known = ", ".join(self.names()) or "none yet (`assay skills import` and `assay skills distil` add them)"
            raise UserError(f"no skill is called {name!r} in {self.folder}; skills there: {known}")
        if not any(map(_adds_version, entries)):
            raise StoreError(f"the ledger of {name} adds no version: restore it from a copy")
        return entries

    def summary(self, name: str) -> SkillSummary:
        """Returns a skill's standing. Raises as `entries`."""
        return summarise_entries(name, self.entries(name))

    def folder_of(self, name: str, version: str) -> Path:
        """Returns the folder of a version, as harnesses load it."""
        return self.folder / name / "versions" / version.partition(":")[2][:16] / name

    def placebo_of(self, name: str, version: str, placebo: SkillFolder) -> Path:
        """Returns the folder of a version's placebo, written if it is missing.

        Raises:
            StoreError: It was changed.
        """
        folder = self.folder / name / "placebos" / version.partition(":")[2][:16] / name
        _write_version(placebo, folder)
        if read_skill(folder).digest != placebo.digest:
            raise StoreError(f"{folder} was changed: remove it, and the trial writes it again")
        return folder

    def load(self, name: str, version: str) -> SkillFolder:
        """Reads a version. Raises `StoreError` if its files are not those that the ledger names."""
        skill = read_skill(self.folder_of(name, version))
        if skill.digest != version:
            raise StoreError(f"{self.folder_of(name, version)} was changed: its digest is not {version}; restore it")
        return skill

    def add(
        self, skill: SkillFolder, kind: EntryKind, *, reason: str, source: str, claims: tuple[Claim, ...] = ()
    ) -> SkillEntry:
        """Adds a version from outside or from a distillation; the first one makes the skill."""
        return self.append(skill.name, SkillEntry(
            kind=kind, version=skill.digest, at=time.time(), reason=reason, source=source, claims=claims,
            problems=validate_skill(skill),
        ), skill)  # fmt: skip

    def propose(self, name: str, proposal: EditProposal) -> SkillEntry:
        """Makes a candidate by edits of `SkillSummary.base`.

        Raises:
            UserError: A trial refused what the edits make, they change nothing, or an edit does not fit the text.
        """
        summary = self.summary(name)
        base = summary.base
        before = self.load(name, base)
        skill = apply_edits(before, proposal.edits)
        if skill.digest == before.digest:
            raise UserError(f"these edits of {name} change nothing")
        if skill.digest in {entry.version for entry in summary.rejected}:
            raise UserError(f"these edits of {name} were tried and refused (`assay skills show {name}` has the trial)")
        lines = {line.strip() for line in skill.text.splitlines()}
        claims = [claim for claim in summary.claims_of(base) if claim.kind == "script" or claim.text in lines]
        claims += [
            Claim(line.strip(), "text", proposal.evidence)
            for edit in proposal.edits
            for line in edit.text.splitlines()
            if line.strip()
        ]
        return self.append(name, SkillEntry(
            kind="edit", version=skill.digest, at=time.time(), reason=proposal.reason, proposal=proposal, base=base,
            claims=tuple(claims), problems=validate_skill(skill),
        ), skill)  # fmt: skip

    def record_trial(self, name: str, version: str, trial: TrialRecord) -> SkillEntry:
        """Appends a trial; an accepted one releases the version. A trial that is recorded already is returned."""
        for entry in self.entries(name):
            if trial.use and entry.trial is not None and entry.trial.use == trial.use:
                return entry
        self.load(name, version)
        reason = trial.reasons[0] if trial.reasons else ""
        return self.append(name, SkillEntry(
            kind="trial", version=version, at=time.time(), reason=reason, trial=trial
        ))  # fmt: skip

    def retire(self, name: str, reason: str) -> SkillEntry:
        """Withdraws a skill; its versions and its ledger stay. Raises `UserError` if it is retired already."""
        summary = self.summary(name)
        if summary.state == "retired":
            raise UserError(f"skill {name!r} is retired already")
        return self.append(name, SkillEntry(kind="retire", version=summary.version, at=time.time(), reason=reason))

    def _ledger(self, name: str) -> ChainedFile[SkillEntry]:
        if not RUN_NAME.fullmatch(name) or name == HOLDOUT_FILE:
            raise UserError(f"{name[:80]!r} cannot name a skill: use lower-case letters, digits and hyphens")
        return ChainedFile(self.folder / name / "ledger.jsonl", SkillEntry)

    def append(self, name: str, entry: SkillEntry, skill: SkillFolder | None = None) -> SkillEntry:
        ledger = self._ledger(name)
        with ledger.locked() as append:
            entries = ledger.read()
            if skill is not None:
                _write_version(skill, self.folder_of(name, entry.version))
            entry = msgspec.structs.replace(entry, previous=entries[-1].digest if entries else "")
            append(entry)
        return entry


def _write_version(skill: SkillFolder, folder: Path) -> None:
    if not folder.is_dir():
        with contextlib.suppress(FileExistsError):  # another process wrote the same files first
            place_skill(skill, folder)
