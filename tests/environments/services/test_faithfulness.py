"""Acts that a person must not do are found in the turns; the rule-driven person never does one."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.environments.services.conversation import conversation
from assay.environments.services.faithfulness import DialogueTurn, advance, find_deviations, is_conveyed
from assay.environments.services.users import (
    ChangeOfMind,
    Disclosure,
    Fact,
    UserAct,
    UserScript,
    begin,
    checklist_of,
    reply,
)
from assay.environments.services.world import ServiceWorld

EMAIL = Fact("email", "My email address is m0@example.org.", ("email",))
BIKE = Fact("bike", "The bike is the red one.", ("bike",))
PIN = Fact("pin", "The PIN is 4711.", ("pin",), "withheld")
CODE = Fact("code", "The code is K-1234.", ("code",), "insisted")
DATE = Fact("date", "The date is 2026-03-05.", ("date",), wrong="The date is 2026-03-04.", corrects_at=3)
CHANGE = ChangeOfMind(2, "Actually, send the bill to n1@example.org.")
SCRIPT = UserScript("I want to rent a bike.", (EMAIL, BIKE, PIN, CODE, DATE), (CHANGE,), patience=3)
NO_CHANGE = msgspec.structs.replace(SCRIPT, changes=())
T = DialogueTurn


def kinds(*turns: DialogueTurn, script: UserScript = NO_CHANGE) -> list[tuple[str, int, str]]:
    return [(found.kind, found.turn, found.subject) for found in find_deviations(script, turns)]


@pytest.mark.parametrize(
    "turns",
    [
        [T("Your email?", "Sure, you reach me at M0@example.org!")],
        [T("Which bike?", "Well, the red one, please.")],
        [T("Is it m9@example.org?", "No, not m9@example.org.")],
        [T("Please tell me more about it.", "The bike is the red one, and mail goes to m0@example.org.")],
        [T("The code?", "Do you need it?"), T("Yes, what is the code?", "K-1234.")],
        [T("Which date?", "On 4 March 2026."), T("The date, again?", "Sorry, on 5 March 2026.")],
        [T("Which date?", "On March 4, 2026."), T("Hm.", "Yes."), T("Hm.", "I was wrong: on March 5th, 2026.")],
        [T("Your PIN?", "I would rather not say that."), T("It has been done.", "Bye.", has_left=True)],
        [T("Hm.", "I am not sure.")] * 2 + [T("Hm.", "Goodbye.", has_left=True)],
    ],
)
def test_a_faithful_person_may_use_their_own_words(turns: list[DialogueTurn]) -> None:
    assert kinds(*turns) == []


@pytest.mark.parametrize(
    ("turns", "found"),
    [
        ([T("Your PIN?", "It is 4711.")], ("withheld", 1, "pin")),
        ([T("Hello.", "Hi, my email is m0@example.org.")], ("early", 1, "email")),
        ([T("The code?", "K-1234")], ("early", 1, "code")),
        ([T("Which date?", "2026-03-05")], ("early", 1, "date")),
        ([T("Your email?", "m7@example.org")], ("contradicted", 1, "email")),
        ([T("Which bike?", "The bike is the blue one.")], ("contradicted", 1, "bike")),
        ([T("Hello.", "I am m7@example.org")], ("invented", 1, "m7@example.org")),
        ([T("Hello.", "Bye.", has_left=True)], ("left early", 1, "")),
        ([T("Hello.", " ")], ("silent", 1, "")),
        ([T("Hello.", "Yes.", (("reboot", {}),))], ("unplanned act", 1, "reboot")),
    ],
)
def test_each_way_of_leaving_the_script_is_named(turns: list[DialogueTurn], found: tuple[str, int, str]) -> None:
    assert kinds(*turns) == [found]


def test_a_corrected_mistake_is_not_repeated() -> None:
    asked = [T("Which date?", "4 March 2026"), T("Which date?", "5 March 2026"), T("Which date?", "4 March 2026")]
    assert kinds(*asked) == [("contradicted", 3, "date")]


def test_a_change_of_mind_comes_at_its_turn_and_not_before() -> None:
    first, said = (
        T("Your email?", "m0@example.org"),
        T("Which bike?", "The red one. And actually send the bill to N1@example.org."),
    )
    assert kinds(first, said, script=SCRIPT) == []
    assert kinds(first, T("Which bike?", "The red one."), script=SCRIPT) == [("change left out", 2, CHANGE.text)]
    assert ("early", 1, CHANGE.text) in kinds(said, script=SCRIPT)


def test_an_act_is_planned_where_it_was_asked_for() -> None:
    script = UserScript("Hi.", acts=(UserAct("reboot", {"hard": True}, ("restart",)),))
    call = ("reboot", {"hard": True})
    assert kinds(T("Please restart it?", "Done.", (call,)), script=script) == []
    assert kinds(T("Now restart the phone.", "Done.", (call,)), script=script) == []
    assert kinds(T("Hello.", "Done.", (call,)), script=script) == [("unplanned act", 1, "reboot")]
    assert kinds(T("Do not restart it.", "Done.", (call,)), script=script) == [("unplanned act", 1, "reboot")]


def test_values_that_tools_showed_are_not_invented() -> None:
    shown = T("Your email?", "m0@example.org, and it says m8@example.org", (), ("From m8@example.org",))
    assert kinds(shown) == []


def test_a_sentence_without_values_is_conveyed_by_what_it_says_of_its_subject() -> None:
    assert is_conveyed(BIKE.text, "I mean THE RED ONE!")
    assert not is_conveyed(BIKE.text, "I mean the reddest one.")
    assert not is_conveyed("The order is #W1234 for $1,200.", "#W1234")
    assert is_conveyed("The order is #W1234 for $1,200.", "order #w1234, which cost 1200.00")


def test_the_state_of_a_given_conversation() -> None:
    state, _ = begin(NO_CHANGE)
    for turn in (T("Which date?", "4 March 2026."), T("Your email?", "m0@example.org"), T("Bye.", "", has_left=True)):
        state = advance(NO_CHANGE, state, turn)
    assert (state.turn, state.told, state.mistaken, state.left) == (3, ("email",), ("date",), True)
    assert state.evidence == {"email": 2}
    messages = ["I want to rent a bike.", None, "4 March 2026.", None, "m0@example.org"]
    items = {item.fact: item for item in checklist_of(NO_CHANGE, state, messages)}
    assert (items["email"].status, items["email"].turn, items["email"].message) == ("told", 2, 4)
    assert (items["date"].status, items["pin"].status) == ("mistaken", "not told")
    assert items["email"].quote == "m0@example.org"


def test_a_world_says_which_facts_were_told_by_which_message() -> None:
    script = UserScript("I want a bike.", (EMAIL, BIKE))
    world = ServiceWorld.of([conversation], 1, {"conversation": {"script": msgspec.to_builtins(script)}})
    world.act("send_message", {"text": "Hello."})
    world.act("send_message", {"text": "Your email?"})
    summary = world.facts()["summaries"]["conversation"]
    assert (summary["turns"], summary["has_left"]) == (2, False)
    email, bike = summary["checklist"]
    messages = msgspec.json.decode(world.act("read_messages", {}).content)
    assert email["quote"] == messages[email["message"]]["text"] == EMAIL.text
    assert (bike["status"], bike["message"]) == ("not told", None)


DISCLOSURES: st.SearchStrategy[Disclosure] = st.sampled_from(["open", "asked", "insisted", "withheld"])


@st.composite
def facts(draw: st.DrawFn, number: int) -> Fact:
    form = draw(
        st.sampled_from(["address is a{}@example.org", "item is the {} one", "code is AB-10{}", "day is 2026-03-{:02}"])
    )
    text, wrong = (f"My {number} {form.format(value)}." for value in (number + 1, number + 7))
    mistaken = draw(st.booleans())
    return Fact(
        f"f{number}",
        text,
        draw(st.sampled_from([("address",), ("item", "code"), ("day",)])),
        draw(DISCLOSURES),
        wrong if mistaken else "",
        draw(st.one_of(st.none(), st.integers(1, 5))) if mistaken else None,
    )


@st.composite
def scripts(draw: st.DrawFn) -> UserScript:
    return UserScript(
        "I need some help.",
        tuple(draw(facts(number)) for number in range(draw(st.integers(0, 4)))),
        tuple(
            ChangeOfMind(turn, f"By the way, use item number {turn}{turn}{turn} now.")
            for turn in draw(st.sets(st.integers(1, 4)))
        ),
        mood=draw(st.sampled_from(["calm", "hurried", "upset"])),
        patience=draw(st.integers(1, 4)),
        seed=draw(st.integers(0, 100)),
    )


QUESTIONS = (
    "Your address?",
    "Which item?",
    "What day, and which code?",
    "Shall I go on?",
    "It is done.",
    "Hm.",
    "Is it a9@example.org?",
)


@given(scripts(), st.lists(st.one_of(st.sampled_from(QUESTIONS), st.text(max_size=30)), max_size=8))
def test_the_rule_driven_person_never_leaves_the_script(script: UserScript, messages: list[str]) -> None:
    state, _ = begin(script)
    turns: list[DialogueTurn] = []
    for message in messages:
        if state.left:
            break
        state, answer, acts = reply(script, state, message)
        turns.append(T(message, answer, tuple((act.action, act.arguments) for act in acts), has_left=state.left))
    assert find_deviations(script, turns) == ()


@given(st.lists(st.text(max_size=200), max_size=4))
def test_any_answer_is_judged(answers: list[str]) -> None:
    for found in find_deviations(SCRIPT, [T(answer, answer) for answer in answers]):
        assert 1 <= found.turn <= len(answers)


@pytest.mark.parametrize(
    "text", ["a" * 20_000, "1" * 20_000, "a-" * 10_000, "1 " * 10_000, "the bike is " * 1_600, "1,1" * 6_000]
)
def test_long_hostile_answers_are_judged_quickly(text: str) -> None:
    assert all(found.turn == 1 for found in find_deviations(SCRIPT, [T(text, text)]))
