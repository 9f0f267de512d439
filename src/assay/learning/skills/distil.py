"""Distils rules from verified contrasts: what passing attempts did more often than chance, and failing ones did not.

The unit is the *pattern* of an act (`assay.agents.text_rules`): how often passing attempts took it, beside how often a
random act among those that the text offered would have been of that pattern. The factor of a rule is
(taken + 1) / (expected + 1), multiplied by the factor of the rule that the attempts followed already. Attempts that are
not judged, and passes that are doubted, count on neither side.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from assay.agents.text_rules import LEAST_FACTOR, MOST_FACTOR, TextMemory, parse_rules, render_rule

from .folder import SKILL_FILE, SkillFolder
from .front_matter import render_front_matter
from .records import Claim, EvidenceRef

LEAST_SUPPORT = 5
"""Steps, taken or expected, below which a pattern gets no rule."""


class TextTurn(NamedTuple):
    """One command and its answer."""

    step: int
    """`Step.index`."""
    command: str
    answer: str


class TextAttempt(NamedTuple):
    """One judged attempt at a text task."""

    source: EvidenceRef
    """The attempt; its `steps` are empty."""
    passed: bool
    brief: str
    """The instruction, with the first description."""
    turns: Sequence[TextTurn]


class PatternCount(NamedTuple):
    """Counts of one pattern over attempts."""

    taken: int
    expected: float
    evidence: tuple[EvidenceRef, ...]
    """Steps that took the pattern; where none did, those that offered it."""

    @property
    def factor(self) -> float:
        """Returns how much more often than chance the pattern was taken, drawn towards 1 by one pseudo-count."""
        return (self.taken + 1) / (self.expected + 1)


class DistilledSkill(NamedTuple):
    """A skill and the claims that its lines make."""

    skill: SkillFolder
    claims: tuple[Claim, ...]
    passing: int
    failing: int


class _StepsByPattern(NamedTuple):
    """Steps of one attempt, by pattern."""

    taken: dict[str, list[int]]
    offered: dict[str, list[int]]


def count_patterns(attempts: Iterable[TextAttempt]) -> dict[str, PatternCount]:
    """Counts the patterns of acts over attempts; acts that the text did not offer are skipped."""
    expected: dict[str, float] = defaultdict(float)
    taken: dict[str, list[EvidenceRef]] = defaultdict(list)
    offered: dict[str, list[EvidenceRef]] = defaultdict(list)
    for attempt in attempts:
        steps = _count_attempt(attempt, expected)
        for found, numbers_of in ((taken, steps.taken), (offered, steps.offered)):
            for pattern, numbers in numbers_of.items():
                found[pattern].append(_with_steps(attempt.source, numbers))
    return {
        pattern: PatternCount(
            sum(len(ref.steps) for ref in taken.get(pattern, ())),
            expected[pattern],
            tuple(taken.get(pattern) or offered[pattern]),
        )
        for pattern in sorted(expected)
    }


def _count_attempt(attempt: TextAttempt, expected: dict[str, float]) -> _StepsByPattern:
    steps = _StepsByPattern(defaultdict(list), defaultdict(list))
    memory = TextMemory(attempt.brief)
    for turn in attempt.turns:
        acts = memory.possible_acts()
        chosen = next((act.pattern for act in acts if act.command == turn.command), None)
        if chosen is not None:
            steps.taken[chosen].append(turn.step)
            for pattern in {act.pattern for act in acts}:
                steps.offered[pattern].append(turn.step)
            for act in acts:
                expected[act.pattern] += 1 / len(acts)
        memory.observe(turn.command, turn.answer)
    return steps


def _with_steps(source: EvidenceRef, steps: Sequence[int]) -> EvidenceRef:
    return EvidenceRef(source.run, source.attempt, source.chain, source.head, tuple(steps))


def distil_rules(
    attempts: Sequence[TextAttempt], earlier: Mapping[str, float] | None = None, known: Sequence[Claim] = ()
) -> tuple[Claim, ...]:
    """Returns a claim for each rule, the one with the largest factor first.

    Args:
        attempts: Passing and failing attempts, all by one agent.
        earlier: Factors of the rules that this agent followed; None for an agent without rules.
        known: The claims of those rules: their evidence is kept beside the new one, and a rule that the attempts say
            nothing new about stays.
    """
    earlier = earlier or {}
    old = {pattern: claim for claim in known for pattern in parse_rules(claim.text)}
    passing = count_patterns(one for one in attempts if one.passed)
    failing = count_patterns(one for one in attempts if not one.passed)
    claims: list[tuple[float, Claim]] = []
    for pattern in sorted({*passing, *earlier}):
        count, beside = passing.get(pattern), failing.get(pattern)
        before, base = old.get(pattern), earlier.get(pattern, 1.0)
        if count is not None and _is_contrast(count, beside):
            factor = min(MOST_FACTOR, max(LEAST_FACTOR, base * count.factor))
            claims.append((factor, _claim(pattern, factor, count, beside, before)))
        elif before is not None:
            claims.append((base, before))
    return tuple(claim for _, claim in sorted(claims, key=lambda one: (-one[0], one[1].text)))


def _is_contrast(passing: PatternCount, failing: PatternCount | None) -> bool:
    """Returns whether passing attempts differ from chance by more than failing ones do in the same direction."""
    if max(passing.taken, passing.expected) < LEAST_SUPPORT:
        return False
    lift = math.log(passing.factor)
    beside = 0.0 if failing is None else math.log(failing.factor)
    return abs(lift) > 1e-9 and (lift > beside if lift > 0 else lift < beside)


def _claim(
    pattern: str, factor: float, count: PatternCount, failing: PatternCount | None, before: Claim | None
) -> Claim:
    taken = count.taken + (before.taken if before else 0)
    expected = count.expected + (before.expected if before else 0.0)
    text = f"{render_rule(pattern, factor)} ({taken} times in passing attempts; {expected:.1f} by chance)"
    return Claim(
        text=text,
        evidence=_joined_evidence(before, count),
        taken=taken,
        expected=round(expected, 4),
        failing_factor=None if failing is None else round(failing.factor, 4),
    )


def _joined_evidence(before: Claim | None, count: PatternCount) -> tuple[EvidenceRef, ...]:
    """Returns old and new evidence; steps that took the act displace those that only offered it."""
    old = before.evidence if before is not None else ()
    if before is not None and bool(before.taken) != bool(count.taken):
        return old if before.taken else count.evidence
    return (*old, *count.evidence)


def write_rule_skill(
    name: str, claims: Sequence[Claim], attempts: Sequence[TextAttempt], failures: Sequence[Claim] = ()
) -> DistilledSkill:
    """Writes the claims as a skill folder, whose every rule is the text of a claim."""
    passing = sum(one.passed for one in attempts)
    description, intro, body = list[str](), "Counted in attempts that were verified as passed.", ""
    if claims:
        description.append(
            "Which acts lead to the goal in a text adventure: rooms, locked doors, keys, and a thing to bring home. "
            "Use it when a task asks to find a thing, carry it to a room and drop it there."
        )
        intro += (
            " Each rule says how much more often than a random act\na kind of act is worth taking; kinds without a "
            "rule count 1."
        )
        body += "\n## Rules\n\n" + "\n".join(claim.text for claim in claims) + "\n"
    if failures:
        description.append("How failed calls of tools were mended. Use it when a call fails.")
        body += (
            "\n## When a call fails\n\nForms of arguments are written with `A` for capitals, `a` for small letters and "
            "`0` for digits.\n\n" + "\n".join(claim.text for claim in failures) + "\n"
        )
    front = render_front_matter(
        {"name": name, "description": " ".join(description), "metadata": {"distilled-by": "assay rule distiller"}}
    )
    files = {SKILL_FILE: f"{front}\n# {name}\n\n{intro}\n{body}".encode()}
    return DistilledSkill(SkillFolder(name, files), (*claims, *failures), passing, len(attempts) - passing)
