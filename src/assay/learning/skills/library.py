"""The skills of a store: versions as folders, and a hash-chained ledger of everything that happened to each skill.

<store>/skills/<name>/ledger.jsonl               imports, distillations, edits, trials, retirement
<store>/skills/<name>/versions/<hex>/<name>/     the files of one version, as harnesses load them

Invariant: a version is released only by an accepted trial of exactly its bytes; a version's files are read again and
compared with its digest before they are used.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.errors import StoreError, UserError
from assay.store.layout import RUN_NAME

from .chained_file import ChainedFile
from .edits import apply_edits
from .folder import SkillFolder, read_skill, validate_skill, write_skill
from .records import Claim, EditProposal, EntryKind, SkillEntry, SkillState, TrialRecord


class SkillSummary(NamedTuple):
    """The present standing of a skill."""

    name: str
    version: str
    """The newest version, whatever its state."""
    state: SkillState
    released: str | None
    """The released version; None without one."""
    claims: tuple[Claim, ...]
    """Those of the newest version."""
    rejected: tuple[SkillEntry, ...]
    """Edits whose trial refused them, oldest first."""
    entries: tuple[SkillEntry, ...]


class SkillLibrary:
    """The skills of one store."""

    def __init__(self, store: Path) -> None:
        self.folder = store / "skills"

    def names(self) -> list[str]:
        """Returns the names of all skills, sorted."""
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if (path / "ledger.jsonl").is_file())

    def entries(self, name: str) -> list[SkillEntry]:
        """Returns a skill's ledger. Raises `UserError` for an unknown name, `StoreError` for a changed ledger."""
        entries = self._ledger(name).read()
        if not entries:
            known = ", ".join(self.names()) or "none; `assay skills import` and `assay skills distil` make some"
            raise UserError(f"no skill is called {name!r} in {self.folder}; there are {known}")
        return entries

    def summary(self, name: str) -> SkillSummary:
        """Returns a skill's standing. Raises as `entries`."""
        entries = self.entries(name)
        made = [entry for entry in entries if entry.kind in ("import", "distil", "edit")]
        newest = made[-1]
        released, state, rejected = None, "candidate", list[SkillEntry]()
        edits = {entry.version: entry for entry in made if entry.kind == "edit"}
        for entry in entries:
            if entry.kind == "trial" and entry.trial is not None:
                if entry.trial.accepted:
                    released = entry.version
                elif entry.version in edits:
                    rejected.append(edits[entry.version])
                state = "released" if entry.trial.accepted else "refused"
            elif entry.kind == "retire":
                released, state = None, "retired"
            else:
                state = "candidate"
        return SkillSummary(name, newest.version, state, released, newest.claims, tuple(rejected), tuple(entries))  # type: ignore[arg-type]

    def folder_of(self, name: str, version: str) -> Path:
        """Returns the folder of a version, as harnesses load it."""
        return self.folder / name / "versions" / version.partition(":")[2][:16] / name

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
        return self._append(skill, SkillEntry(
            kind=kind, version=skill.digest, at=time.time(), reason=reason, source=source, claims=claims,
            problems=validate_skill(skill),
        ))  # fmt: skip

    def propose(self, name: str, proposal: EditProposal) -> SkillEntry:
        """Makes a candidate by edits of the released version, or of the newest without one.

        Raises:
            UserError: A trial refused the same edits before, or an edit does not fit the text.
        """
        summary = self.summary(name)
        refused = {entry.proposal.digest for entry in summary.rejected if entry.proposal is not None}
        if proposal.digest in refused:
            raise UserError(f"these edits of {name} were tried and refused (`assay skills show {name}` has the trial)")
        base = summary.released or summary.version
        skill = apply_edits(self.load(name, base), proposal.edits)
        lines = {line.strip() for line in skill.text.splitlines()}
        claims = [claim for claim in self._claims_of(summary, base) if claim.kind == "script" or claim.text in lines]
        claims += [
            Claim(line.strip(), "text", proposal.evidence)
            for edit in proposal.edits
            for line in edit.text.splitlines()
            if line.strip()
        ]
        return self._append(skill, SkillEntry(
            kind="edit", version=skill.digest, at=time.time(), reason=proposal.reason, proposal=proposal, base=base,
            claims=tuple(claims), problems=validate_skill(skill),
        ))  # fmt: skip

    def record_trial(self, name: str, version: str, trial: TrialRecord) -> SkillEntry:
        """Appends a trial; an accepted one releases the version."""
        skill = self.load(name, version)
        reason = trial.reasons[0] if trial.reasons else ""
        return self._append(skill, SkillEntry(
            kind="trial", version=version, at=time.time(), reason=reason, trial=trial
        ))  # fmt: skip

    def retire(self, name: str, reason: str) -> SkillEntry:
        """Withdraws a skill; its versions and its ledger stay. Raises `UserError` if it is retired already."""
        summary = self.summary(name)
        if summary.state == "retired":
            raise UserError(f"skill {name!r} is retired already")
        skill = self.load(name, summary.version)
        return self._append(skill, SkillEntry(kind="retire", version=summary.version, at=time.time(), reason=reason))

    def _claims_of(self, summary: SkillSummary, version: str) -> tuple[Claim, ...]:
        return next(e.claims for e in reversed(summary.entries) if e.version == version and e.kind != "trial")

    def _ledger(self, name: str) -> ChainedFile[SkillEntry]:
        if not RUN_NAME.fullmatch(name):
            raise UserError(f"{name[:80]!r} cannot name a skill: use lower-case letters, digits and hyphens")
        return ChainedFile(self.folder / name / "ledger.jsonl", SkillEntry)

    def _append(self, skill: SkillFolder, entry: SkillEntry) -> SkillEntry:
        ledger = self._ledger(skill.name)
        with ledger.locked() as append:
            entries = ledger.read()
            folder = self.folder_of(skill.name, entry.version)
            if not folder.is_dir():
                write_skill(skill, folder)
            entry = msgspec.structs.replace(entry, previous=entries[-1].digest if entries else "")
            append(entry)
        return entry
