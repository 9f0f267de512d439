"""Filters by a single attempt's verdicts, behaviour and error recovery."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from assay.records import Separation
from assay.verdicts import meets

from .interface import AttemptCandidate, Selection


def verdicts(
    candidates: Sequence[AttemptCandidate],
    *,
    outcome: Literal["pass", "fail", "any"] = "pass",
    doubtful: bool = False,
    need_integrity: bool = False,
    process_at_least: float | None = None,
    imported: bool = False,
) -> list[Selection]:
    """By verdict card.

    Args:
        candidates: What is decided about.
        outcome: The outcome wanted. Safety that failed is never kept; nor, for any outcome, integrity that failed.
        doubtful: Keep passes that something speaks against, though never those whose integrity failed.
        need_integrity: Keep only what passed an integrity verdict.
        process_at_least: Keep only what has a process score of at least this.
        imported: Keep outcomes that another system claimed and were not judged here.
    """

    def decide(one: AttemptCandidate) -> Selection:
        rules = (
            (
                outcome != "any" and one.outcome != outcome,
                f"outcome is {one.outcome or 'not judged'}, wanted {outcome}",
            ),
            (one.integrity == "fail", "integrity failed"),
            (one.safety == "fail", "safety failed"),
            (not doubtful and one.doubt is not None, f"doubtful: {one.doubt}"),
            (need_integrity and one.integrity != "pass", f"integrity is {one.integrity or 'not judged'}, wanted pass"),
            (one.imported and not imported, "its outcome was claimed by another system and not judged here"),
            (
                process_at_least is not None and (one.process_score is None or one.process_score < process_at_least),
                f"process score {_number(one.process_score)}, wanted at least {process_at_least}",
            ),
        )
        against = next((why for holds, why in rules if holds), None)
        if against is not None:
            return Selection(False, against)
        return Selection(True, f"verdicts: {one.outcome or 'not judged'}, nothing against it")

    return [decide(one) for one in candidates]


def secrets(candidates: Sequence[AttemptCandidate]) -> list[Selection]:
    """Leaves out attempts that hold a known credential or key-shaped text."""
    return [
        Selection(not one.secrets, f"it holds {', '.join(one.secrets)}" if one.secrets else "no secret was found")
        for one in candidates
    ]


def separation(candidates: Sequence[AttemptCandidate], *, at_least: Separation = "separate") -> list[Selection]:
    """By grade of separation: keeps passes whose deciding process was kept at least so far from what the agent wrote.
    Attempts that did not pass are kept, because a grade says how far a pass holds."""
    return [
        Selection(
            one.outcome != "pass" or meets(one.separation, at_least),
            f"separation is {one.separation}, wanted at least {at_least}",
        )
        for one in candidates
    ]


def density(candidates: Sequence[AttemptCandidate], *, at_least: float = 0.3) -> list[Selection]:
    """By inspect-act-verify density: the share of acts that belong to a whole cycle of looking, changing and checking.

    After environment-grounded supervision (Terminal-Lego, catalogued from its abstract), which prefers attempts that
    show that behaviour to attempts of strong teachers; its measure was not seen, this one is ours
    (`measures.cycles_of`).
    """
    return [
        Selection(
            one.density >= at_least,
            f"inspect-act-verify density {one.density:.2f} ({one.cycles} cycles), wanted at least {at_least}",
        )
        for one in candidates
    ]


def recovery(
    candidates: Sequence[AttemptCandidate],
    *,
    at_least: float = 0.5,
    without_errors: Literal["keep", "drop"] = "keep",
) -> list[Selection]:
    """By reflective recovery: of its errors, the share that it got over by doing something else than before.

    After TopoCurate, arXiv 2603.01714 (no formula published); the measure is that of `analysis.recovery`, ours.
    """

    def decide(one: AttemptCandidate) -> Selection:
        if not one.errors:
            return Selection(without_errors == "keep", f"no act came to an error ({without_errors})")
        share = one.reflective / one.errors
        return Selection(
            share >= at_least,
            f"{one.reflective} of {one.errors} errors overcome another way ({share:.2f}), wanted at least {at_least}",
        )

    return [decide(one) for one in candidates]


def efficiency(
    candidates: Sequence[AttemptCandidate],
    *,
    everyone: Sequence[AttemptCandidate] = (),
    distinct: float = 0.5,
    waste_at_most: float = 1.0,
    of_shortest: float = 0.0,
) -> list[Selection]:
    """By efficiency, after TopoCurate's semantic efficiency (no formula published; ours).

    Args:
        candidates: What is decided about.
        everyone: Where the shortest pass of each task is found.
        distinct: Least share of acts that are distinct (`analysis.quotient.semantic_efficiency`).
        waste_at_most: Most of its acts that are waste (`analysis.waste`).
        of_shortest: Least length of the task's shortest trusted pass over its own length.
    """
    shortest: dict[str, int] = {}
    for one in everyone or candidates:
        if one.trusted:
            shortest[one.task] = min(one.acts, shortest.get(one.task, one.acts))

    def decide(one: AttemptCandidate) -> Selection:
        ratio = min(shortest.get(one.task, one.acts) / one.acts, 1.0) if one.acts else 1.0
        for value, name, holds, bound in (
            (one.distinct, "distinct acts", one.distinct >= distinct, f"at least {distinct}"),
            (one.waste, "wasted acts", one.waste <= waste_at_most, f"at most {waste_at_most}"),
            (ratio, "length of the shortest pass over its own", ratio >= of_shortest, f"at least {of_shortest}"),
        ):
            if not holds:
                return Selection(False, f"{name} {value:.2f}, wanted {bound}")
        return Selection(True, f"distinct {one.distinct:.2f}, wasted {one.waste:.2f}, shortest over own {ratio:.2f}")

    return [decide(one) for one in candidates]


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.2f}"
