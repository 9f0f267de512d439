"""Records of a skill's life: claims with their evidence, bounded edits, trials, and the entries of the ledger."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from assay.records import digest_record

EDIT_CHARACTERS = 2_000
"""Maximum length of the text of one edit."""
MOST_EDITS = 10
"""Maximum number of edits of one proposal."""

EntryKind = Literal["import", "distil", "edit", "trial", "retire", "tier"]
SkillTier = Literal["candidate", "new", "proven", "demoted"]
RefusalCause = Literal["invalid", "leak", "harm", "protected", "no gain", "no gain over placebo"]
SkillState = Literal["candidate", "released", "refused", "retired"]


class EvidenceRef(msgspec.Struct, frozen=True):
    """Steps of one attempt that a claim rests on."""

    run: str
    attempt: str
    chain: str
    head: str
    """Head of the attempt's hash chain when the claim was made."""
    steps: tuple[int, ...]
    """`Step.index` of each step."""


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line or script of a skill, with what it was distilled from."""

    text: str
    """The line as it stands in SKILL.md; for a script its path in the folder."""
    kind: Literal["rule", "text", "script"] = "rule"
    evidence: tuple[EvidenceRef, ...] = ()
    """Steps that took the act, in passing attempts alone; for an act that none took, the steps that offered it."""
    taken: int = 0
    expected: float = 0.0
    """How often a random act would have been of this kind in those attempts."""
    failing_factor: float | None = None
    """The same factor counted in the failing attempts; None without any."""


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A change of one line of a skill's body."""

    op: Literal["add", "replace", "delete"]
    line: Annotated[str, msgspec.Meta(max_length=EDIT_CHARACTERS)] = ""
    """The line to replace or delete, in full; for `add` the line to add after, empty for the end."""
    text: Annotated[str, msgspec.Meta(max_length=EDIT_CHARACTERS)] = ""
    """The new text; empty for `delete`."""

    def __post_init__(self) -> None:
        """Rejects an edit without what its operation needs."""
        if self.op != "delete" and not self.text.strip():
            raise ValueError(f"an edit with op {self.op} needs a text")
        if self.op != "add" and not self.line.strip():
            raise ValueError(f"an edit with op {self.op} needs the line that it changes")
        if self.op == "delete" and self.text:
            raise ValueError("an edit with op delete has no text")


class EditProposal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Edits that are tried together, with their reason."""

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=EDIT_CHARACTERS)]
    edits: Annotated[tuple[Edit, ...], msgspec.Meta(min_length=1, max_length=MOST_EDITS)]
    evidence: tuple[EvidenceRef, ...] = ()

    @property
    def digest(self) -> str:
        """Returns the content address of the edits, whatever their reason."""
        return digest_record(self.edits)


class ArmResult(msgspec.Struct, frozen=True):
    """One arm of a trial."""

    name: str
    runs: tuple[str, ...]
    """One for each look."""
    tasks: int
    passed: int
    judged: int
    rate: float | None
    """Mean over tasks of the task's rate over judged attempts."""
    steps: float | None
    """Mean an attempt; so are tokens and cost, each over the attempts for which it is known."""
    tokens: float | None
    cost_usd: float | None


class HarmCheck(msgspec.Struct, frozen=True):
    """Further attempts, with and without the skill, at the tasks of a trial that passed without it."""

    runs: tuple[str, str]
    """Without and with the skill."""
    tasks: int
    attempts: int
    """At each task in each of the two runs."""
    passed: tuple[int, int]
    """Without and with the skill; an attempt without a verdict counts as in the trial."""
    p_harm: float
    """One-sided sign-flip test on tasks."""
    level: float


class TrialRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A paired trial of one version and its decision."""

    accepted: bool
    causes: tuple[RefusalCause, ...]
    """Why it was refused; empty if it was accepted."""
    reasons: tuple[str, ...]
    holdout: str
    """Digest of the trial's tasks; empty where the skill was refused before the trial."""
    alpha: float
    """Highest chance of accepting a skill not better than one of the controls; granted by the holdout ledger."""
    arms: tuple[ArmResult, ...]
    p_none: float | None
    """One-sided permutation test against no skill, of all tasks tried; None where nothing was run."""
    p_placebo: float | None
    """The same against the placebo."""
    p_both: float | None = None
    """The same against both together."""
    looks: int = 0
    """Looks until the decision."""
    planned: int = 0
    """Tasks of the holdout; the arms say how many were tried."""
    unjudged: int = 0
    """Attempts without a verdict: counted as failed with the skill, and as passed without."""
    earlier_uses: int = 0
    """Decisions that used one of these tasks before; the arms' figures are clean estimates only at 0."""
    use: str = ""
    """Digest of the holdout ledger's record of this use."""
    leaks: tuple[str, ...] = ()
    harm_check: HarmCheck | None = None
    """None where none was asked for, or none was needed."""


class SkillEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One entry of a skill's ledger; entries form a hash chain."""

    kind: EntryKind
    version: str
    """Digest of the skill's files that the entry is about."""
    at: float
    """Seconds since the Unix epoch."""
    reason: str = ""
    source: str = ""
    problems: tuple[str, ...] = ()
    """Objections of the reference checker."""
    claims: tuple[Claim, ...] = ()
    proposal: EditProposal | None = None
    base: str = ""
    """Version that an edit changes."""
    trial: TrialRecord | None = None
    tier: SkillTier | None = None
    """Where a look at runs moved the version."""
    previous: str = ""
    """Digest of the entry before; empty for the first."""

    @property
    def digest(self) -> str:
        """Returns the content address of the entry."""
        return digest_record(self)
