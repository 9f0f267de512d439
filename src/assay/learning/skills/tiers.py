"""Tiers of released skills by what recorded runs say of them: which are offered first, and which no more.

    new -> proven      its effect in use is above 0 with its whole 95% interval
    new -> demoted     it is below 0 with its whole interval; a demoted skill is offered to no task
    proven -> new      its mean effect is no longer above 0
    demoted -> new     its mean effect is above 0 again, in attempts that loaded it by name

The design (tiers with promotions and demotions, and a choice by tier) is catalogued from the abstract of ARISE; rules
and thresholds are ours. A tier is a priority, not a decision: a trial releases a skill, a retirement withdraws it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from assay.settings import Settings

from .library import SkillLibrary, SkillSummary
from .records import SkillEntry, SkillTier
from .usage import VersionUsage, count_usage

ORDER: dict[SkillTier, int] = {"proven": 0, "new": 1, "candidate": 2, "demoted": 3}
"""Tiers, the first to be offered first; only the first two are offered at all."""


class SkillTierReport(msgspec.Struct, frozen=True):
    """A skill's tier, and what runs say."""

    skill: str
    tier: SkillTier
    before: SkillTier
    promotions: int
    demotions: int
    """Moves that its ledger records, up and down, this one included where it was recorded."""
    usage: VersionUsage | None
    """Of the released version; None where no attempt of the runs loaded it."""


def next_tier(before: SkillTier, usage: VersionUsage | None) -> SkillTier:
    """Returns the tier after a look at runs; without an interval, which needs 10 tasks, it stays."""
    if usage is None or usage.difference is None or usage.low is None or usage.high is None:
        return before
    if usage.low > 0:
        return "proven"
    if usage.high < 0:
        return "demoted"
    is_stale = usage.difference <= 0 if before == "proven" else usage.difference > 0
    return "new" if before in ("proven", "demoted") and is_stale else before


def move_skills(runs: Sequence[str], settings: Settings, *, record: bool) -> list[SkillTierReport]:
    """Returns the standing of every skill by these runs; with `record` moves are written to the ledgers.

    Raises:
        StoreError: A run or a ledger is not what was recorded.
    """
    library = SkillLibrary(settings.store)
    return [_move(library, name, runs, settings, record=record) for name in library.names()]


def _move(
    library: SkillLibrary, name: str, runs: Sequence[str], settings: Settings, *, record: bool
) -> SkillTierReport:
    summary = library.summary(name)
    usage, before = None, summary.tier
    after = before
    if summary.released is not None and runs:
        counted = count_usage(name, runs, settings)
        usage = next((one for one in counted if one.version == summary.released), None)
        after = next_tier(before, usage)
    moves = _count_moves(summary)
    if record and after != before and usage is not None and summary.released is not None:
        reason = f"{before} to {after}: {usage.difference:+.3f} [{usage.low:+.3f}, {usage.high:+.3f}]"
        library.append(
            name,
            SkillEntry(
                kind="tier", version=summary.released, at=time.time(), tier=after, source=", ".join(runs),
                reason=f"{reason} over {usage.tasks} tasks",
            ),
        )  # fmt: skip
        moves = _count_moves(library.summary(name))
    return SkillTierReport(name, after, before, *moves, usage)


def _count_moves(summary: SkillSummary) -> tuple[int, int]:
    """Returns how often the skill went up and down."""
    up = down = 0
    tier: SkillTier = "new"
    for entry in summary.entries:
        if entry.tier is not None:
            up += ORDER[entry.tier] < ORDER[tier]
            down += ORDER[entry.tier] > ORDER[tier]
            tier = entry.tier
        elif entry.trial is not None and entry.trial.accepted:
            tier = "new"
    return up, down
