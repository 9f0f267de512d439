"""Rules from verified contrasts, and placebos of equal length."""

from __future__ import annotations

from assay.agents.text_rules import parse_rules
from assay.learning.skills.distil import TextAttempt, TextTurn, count_patterns, distil_rules, write_rule_skill
from assay.learning.skills.folder import validate_skill
from assay.learning.skills.placebo import make_placebo
from assay.learning.skills.records import EvidenceRef

BRIEF = (
    "Find the crown, bring it to the hall and drop it there, in at most 9 turns.\n"
    "You are in the hall. Ways: north. Here: brass key."
)
STAYED = "You are in the hall. Ways: north. Here: brass key."
SOURCE = EvidenceRef("r", "a", "c", "h", ())


def attempt(*commands: str, passed: bool) -> TextAttempt:
    turns = [TextTurn(number, command, STAYED) for number, command in enumerate(commands)]
    return TextAttempt(SOURCE, passed, BRIEF, turns)


def test_factor_is_taken_over_expected_with_one_pseudo_count() -> None:
    counts = count_patterns([attempt(*["take brass key"] * 9, passed=True)])
    assert counts["take a key"].taken == 9
    assert counts["take a key"].expected == 9 / 3  # go north, take brass key, look
    assert counts["take a key"].factor == 10 / 4
    assert counts["take a key"].evidence[0].steps == tuple(range(9))


def test_rule_needs_a_contrast_and_cites_passing_attempts_alone() -> None:
    passing, failing = attempt(*["take brass key"] * 9, passed=True), attempt(*["look"] * 9, passed=False)
    claims = {next(iter(parse_rules(c.text))): c for c in distil_rules([passing, failing])}
    assert claims["take a key"].evidence == (EvidenceRef("r", "a", "c", "h", tuple(range(9))),)
    same = attempt(*["take brass key"] * 9, passed=False)
    assert distil_rules([passing, same]) == ()


def test_rule_for_an_act_that_none_took_cites_the_steps_that_offered_it() -> None:
    claims = distil_rules([attempt(*["take brass key"] * 20, passed=True)])
    avoided = next(one for one in claims if "look" in parse_rules(one.text))
    assert (avoided.taken, avoided.evidence[0].steps) == (0, tuple(range(20)))
    assert all(ref.steps for one in claims for ref in one.evidence)


def test_later_round_multiplies_and_keeps_the_evidence() -> None:
    first = [attempt(*["take brass key"] * 9, passed=True)]
    claims = distil_rules(first)
    rules = parse_rules("\n".join(one.text for one in claims))
    again = {next(iter(parse_rules(c.text))): c for c in distil_rules(first, rules, claims)}
    assert parse_rules(again["take a key"].text)["take a key"] == 6.25
    assert len(again["take a key"].evidence) == 2


def test_skill_is_valid_and_its_placebo_as_long() -> None:
    attempts = [attempt(*["take brass key"] * 20, passed=True)]
    found = write_rule_skill("guide", distil_rules(attempts), attempts)
    placebo = make_placebo(found.skill)
    assert validate_skill(found.skill) == validate_skill(placebo) == ()
    assert len(placebo.text) == len(found.skill.text)
    own, other = parse_rules(found.skill.text), parse_rules(placebo.text)
    assert own != other
    assert sorted(own.values()) == sorted(other.values())
