"""Process measures of conversations, against values worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.environments.services.dialogue_measures import (
    Interview,
    follow_script,
    interview_utility,
    persona_consistency,
    recorded_turns,
    score_emotion,
    share_without_deviations,
    summarize_interview,
)
from assay.environments.services.faithfulness import Deviation
from assay.environments.services.users import Fact, UserAct, UserScript, UserState

EMAIL = Fact("email", "My email address is m0@example.org.", ("email",))
TITLE = Fact("title", "It is called Title 3.", ("title", "called"), "insisted")
SECRET = Fact("secret", "My code is 4711.", ("code",), "withheld")
OPEN = Fact("reason", "I am leaving town.", ("why",), "open")
SCRIPT = UserScript("I want a book.", (EMAIL, TITLE, SECRET, OPEN), patience=3)
USELESS = "The sky is blue."
MESSAGES = st.lists(
    st.sampled_from([USELESS, "Your email?", "Which title is it called?", "What is your code?", "All done."]),
    max_size=9,
)


def test_emotion_is_the_mean_of_patience_and_mood() -> None:
    assert score_emotion(SCRIPT, UserState(patience=3, mood="calm")) == 1.0
    assert score_emotion(SCRIPT, UserState(patience=2, mood="hurried")) == pytest.approx((2 / 3 + 0.5) / 2)
    assert score_emotion(SCRIPT, UserState(patience=1, mood="upset")) == pytest.approx((1 / 3) / 2)
    assert score_emotion(SCRIPT, UserState(patience=2, mood="calm", left=True)) == 0.0


def test_emotion_by_turn_of_a_person_who_is_chatted_at() -> None:
    dialogue = follow_script(SCRIPT, ["Your email?", USELESS, USELESS, USELESS, "Your email?"])
    scores = [score_emotion(SCRIPT, state) for state in dialogue.states]
    assert scores == pytest.approx([1.0, 1.0, (2 / 3 + 0.5) / 2, 1 / 6, 0.0])  # the fifth message finds them gone


@pytest.mark.parametrize("patience", [0, -2])
def test_a_script_without_patience_has_no_share_of_it(patience: int) -> None:
    script = UserScript(patience=patience)
    assert score_emotion(script, UserState(patience=patience)) == 0.5


@given(MESSAGES, st.sampled_from(["calm", "hurried", "upset"]), st.integers(1, 6))
def test_emotion_never_rises_and_stays_within_its_bounds(messages: list[str], mood: str, patience: int) -> None:
    script = UserScript("Hi.", SCRIPT.facts, mood=mood, patience=patience)  # type: ignore[arg-type]
    scores = [score_emotion(script, state) for state in follow_script(script, messages).states]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_utility_counts_what_has_to_be_asked_for() -> None:
    messages = ["Your email?", "Which title is it called?", "Which title is it called?"]
    state = follow_script(SCRIPT, messages).states[-1]
    interview = summarize_interview(SCRIPT, state, len(messages))
    assert interview == Interview(needed=2, obtained=2, messages=3)  # open and withheld facts do not count
    assert interview_utility(interview) == pytest.approx(1 - 3 * 0.05)
    assert interview_utility(interview, 0.1) == pytest.approx(0.7)
    assert interview_utility(Interview(2, 1, 3), 0.0) == 0.5


def test_utility_is_bounded_and_empty_without_facts() -> None:
    assert interview_utility(Interview(2, 0, 500)) == -1.0
    assert interview_utility(Interview(0, 0, 4)) is None


@given(MESSAGES, MESSAGES)
def test_asking_more_obtains_no_less(messages: list[str], more: list[str]) -> None:
    first = follow_script(SCRIPT, messages).states[-1]
    both = follow_script(SCRIPT, [*messages, *more]).states[-1]
    assert summarize_interview(SCRIPT, first, 0).obtained <= summarize_interview(SCRIPT, both, 0).obtained


@given(MESSAGES)
def test_the_rule_driven_person_is_consistent(messages: list[str]) -> None:
    dialogue = follow_script(SCRIPT, messages)
    said = [turn.answer for turn in dialogue.turns]
    expected = 1.0 if said else None
    assert persona_consistency(SCRIPT, recorded_turns(dialogue, said)) == expected


def test_an_answer_that_breaks_a_rule_of_disclosure_costs_its_turn() -> None:
    dialogue = follow_script(SCRIPT, ["Your email?", "What is your code?", "All done.", "Anything else?"])
    said = [turn.answer for turn in dialogue.turns]
    said[1] = SECRET.text
    assert persona_consistency(SCRIPT, recorded_turns(dialogue, said)) == 0.75
    said[0] = "My email address is other@example.org."
    assert persona_consistency(SCRIPT, recorded_turns(dialogue, said)) == 0.5


def test_what_a_tool_of_the_person_returned_is_no_invention() -> None:
    act = UserAct("read_balance", {}, ("balance",), says_result=True)
    script = UserScript("Hi.", (SECRET,), acts=(act,))
    dialogue = follow_script(script, ["Please check the balance."])
    said = f"{dialogue.turns[0].answer} It says: 9321"
    assert persona_consistency(script, recorded_turns(dialogue, [said])) == 1.0
    assert persona_consistency(script, recorded_turns(dialogue, ["It is 9321."])) == 0.0


def test_the_turn_that_ended_the_conversation_counts() -> None:
    deviations = [Deviation("early", 3, "email", ""), Deviation("invented", 3, "x", "")]
    assert share_without_deviations(deviations, 2) == pytest.approx(2 / 3)
    assert share_without_deviations([], 2) == 1.0
    assert share_without_deviations([], 0) is None
