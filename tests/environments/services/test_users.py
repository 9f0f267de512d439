"""The rule-driven person: what they say depends on script, state and message alone."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.environments.services.conversation import Person, conversation
from assay.environments.services.declaration import Service
from assay.environments.services.schema import FreeText
from assay.environments.services.transaction import Generator, Transaction
from assay.environments.services.users import (
    ChangeOfMind,
    Fact,
    Mood,
    UserAct,
    UserScript,
    UserState,
    as_oracle,
    as_ticket,
    begin,
    reply,
)
from assay.environments.services.world import ServiceWorld
from tests.environments.services.lending import lending
from tests.environments.services.test_world import member

EMAIL = Fact("email", "My email address is m0@example.org.", ("email", "e-mail"))
TITLE = Fact("title", "It is called Title 3.", ("title", "which book", "called"))


def talk(script: UserScript, *messages: str) -> tuple[UserState, list[str]]:
    state, _ = begin(script)
    said = []
    for message in messages:
        state, answer, _ = reply(script, state, message)
        said.append(answer)
    return state, said


def test_answers_what_is_asked_and_nothing_else() -> None:
    script = UserScript("I want a book.", (EMAIL, TITLE))
    state, said = talk(script, "What is your email address?", "And which book do you want?")
    assert said == [EMAIL.text, TITLE.text]
    assert state.told == ("email", "title")
    assert state.evidence == {"email": 1, "title": 2}
    assert state.patience == script.patience


def test_a_statement_is_no_question() -> None:
    _, said = talk(UserScript("Hi.", (EMAIL,)), "I see an email here. I like books.")
    assert EMAIL.text not in said[0]


def test_disclosure() -> None:
    facts = tuple(msgspec.structs.replace(EMAIL, disclosure=kind) for kind in ("open", "asked", "insisted", "withheld"))
    first = [begin(UserScript("Hi.", (fact,)))[1] for fact in facts]
    assert first == [f"Hi. {EMAIL.text}", "Hi.", "Hi.", "Hi."]
    told = [
        [EMAIL.text in line for line in talk(UserScript("Hi.", (fact,)), *["Your email?"] * 2)[1]] for fact in facts
    ]
    assert told == [[True, True], [True, True], [False, True], [False, False]]


def test_a_mistake_is_corrected_when_asked_again_or_when_noticed() -> None:
    wrong = msgspec.structs.replace(EMAIL, wrong="My email address is n0@example.org.")
    _, said = talk(UserScript("Hi.", (wrong,)), "Your email?", "Are you sure about the email?")
    assert said == [wrong.wrong, wrong.text]
    noticed = msgspec.structs.replace(wrong, corrects_at=2)
    state, said = talk(UserScript("Hi.", (noticed, TITLE)), "Your email?", "Which book?")
    assert said == [wrong.wrong, f"{TITLE.text} Sorry, I got that wrong. {EMAIL.text}"]
    assert state.mistaken == ()


def test_a_change_of_mind_comes_at_its_turn() -> None:
    change = ChangeOfMind(2, "Actually, make it Title 4.")
    _, said = talk(UserScript("Hi.", (EMAIL, TITLE), (change,)), "Your email?", "Which book?", "Shall I go on?")
    assert [change.text in line for line in said] == [False, True, False]


def test_mood_bounds_how_much_is_told_at_once() -> None:
    both = "What is your email, and which book do you want?"
    calm, hurried = (talk(UserScript("Hi.", (EMAIL, TITLE), mood=mood), both)[1][0] for mood in ("calm", "hurried"))
    assert calm == f"{EMAIL.text} {TITLE.text}"
    assert hurried == EMAIL.text


def test_patience_ends_and_mood_worsens() -> None:
    state, said = talk(UserScript("Hi.", (EMAIL,), patience=3), *["What is the weather?"] * 4)
    assert "Please hurry." in said[0]
    assert "really annoying" in said[1]
    assert said[2].endswith("I have no time for this. Goodbye.")
    assert said[3] == "(The person has left the conversation.)"
    assert (state.left, state.turn) == (True, 3)


def test_confirms_and_thanks() -> None:
    _, said = talk(UserScript("Hi."), "I will lend you Title 3. Shall I proceed?", "That has been done.")
    assert "go" in said[0] or "do that" in said[0]
    assert "hank" in said[1]


CONSENT = (
    "I will lend it. Do you agree?",
    "Is it all right?",
    "Would you approve that?",
    "Does that look right to you?",
    "I will lend it, ok?",
    "Do I have your permission?",
    "Do I have your go-ahead?",
    "Please reply with yes to continue.",
    "Is that what you want?",
    "So, shall I lend the book which you named?",
    "When you are ready, shall I lend it?",
)


@pytest.mark.parametrize("question", CONSENT)
def test_whoever_asks_for_consent_hears_a_yes(question: str) -> None:
    state, said = talk(UserScript("Hi."), question)
    assert re.match("Yes|That is right", said[0])
    assert state.patience == 12
    assert state.agreed == (1,)


@pytest.mark.parametrize("seed", range(9))
def test_a_yes_is_to_what_the_person_asked_for_and_not_to_more(seed: int) -> None:
    _, said = talk(UserScript("Lend me a book.", seed=seed), "Would you like me to delete your account as well?")
    assert "what I asked for" in said[0] or "as far as I asked for it" in said[0]


@pytest.mark.parametrize("question", ["What do you want?", "And which one can I lend?", "So, when shall I send it?"])
def test_no_yes_answers_an_open_question(question: str) -> None:
    state, said = talk(UserScript("Hi."), question)
    assert not re.match("Yes|That is right", said[0])
    assert state.agreed == ()


def test_an_answer_that_is_no_yes_is_no_consent() -> None:
    script = UserScript("Hi.", (EMAIL, TITLE))
    state, _ = talk(script, "Do you agree on which book?", "I will lend it.", "All is done.", "Do you agree?")
    assert state.agreed == (4,)


def test_a_step_that_names_what_was_told_is_confirmed_and_what_was_not_told_is_answered() -> None:
    script = UserScript("Hi.", (EMAIL, TITLE))
    _, said = talk(script, "What is your email?", "I will use that email. Do you agree?", "Do you agree on which book?")
    assert re.match("Yes|That is right", said[1])
    assert said[2] == TITLE.text


@given(st.lists(st.text(max_size=60), max_size=20), st.integers(0, 5))
def test_any_messages_are_answered_and_the_same_again(messages: list[str], seed: int) -> None:
    script = UserScript("Hi.", (EMAIL, TITLE), seed=seed)
    assert talk(script, *messages) == talk(script, *messages)


def opened(script: UserScript) -> ServiceWorld:
    return ServiceWorld.of([lending, conversation], 1, {"conversation": {"script": msgspec.to_builtins(script)}})


def say(world: ServiceWorld, text: str, **more: Any) -> str:
    observation = world.act("send_message", {"text": text, **more})
    assert not observation.error, observation.content
    return observation.content


def test_a_conversation_in_a_world_survives_forks_and_is_not_judged() -> None:
    world = opened(UserScript("I want a book.", (EMAIL, TITLE)))
    first = msgspec.json.decode(world.act("read_messages", {}).content)
    assert [(m["sender"], m["text"]) for m in first] == [("user", "I want a book.")]
    assert say(world, "Your email?") == EMAIL.text
    twin = world.fork()
    assert say(twin, "Which book?") == say(world, "Which book?") == TITLE.text
    assert twin.database.digest() == world.database.digest()
    assert world.database.changes(judged_only=True) == ()
    ((_, _, state),) = world.database.rows(world.tables[Person])
    assert msgspec.json.decode(state, type=UserState).told == ("email", "title")


def test_the_person_acts_with_tools_of_their_own() -> None:
    world = opened(UserScript("Hi."))
    who = member(world)
    act = UserAct("list_loans", {"member_id": who}, ("look at your loans",))
    world = opened(UserScript("Hi.", acts=(act, UserAct("list_loans", {}, ("broken",)))))
    assert "d" in say(world, "Could you look at your loans?")
    assert "Wrong arguments for list_loans" in say(world, "Try the broken thing?")


OFF = UserAct("off", {}, ("turn off airplane mode", "turn airplane mode off"))
BAR = UserAct("bar", {}, ("status bar",))
SET = UserAct("set", {}, ("set the mode to 4g_only", "to '4g_only'"))
MODE = UserAct("mode", {}, ("mode",))


@pytest.mark.parametrize(
    ("message", "done"),
    [
        ("Please turn off airplane mode.", ["off"]),
        ("Turn off airplane mode, then tell me.", ["off"]),
        ("Go to the settings and turn off airplane mode.", ["off"]),
        ("Could you turn off airplane mode?", ["off"]),
        ("I need you to turn off airplane mode.", ["off"]),
        ("Next step: turn airplane mode off", ["off"]),
        ("If it is not off, turn off airplane mode.", ["off"]),
        ("Don't forget to turn off airplane mode!", ["off"]),
        ("Can I ask you to turn off airplane mode?", ["off"]),
        ("Please do NOT turn off airplane mode, I need you to wait.", []),
        ("Please don\u2019t turn off airplane mode.", []),
        ("Do not, whatever happens, turn off airplane mode.", []),
        ("Never turn off airplane mode.", []),
        ("Do I need to turn off airplane mode? No.", []),
        ("Did you already turn off airplane mode?", []),
        ("Should you turn off airplane mode?", []),
        ("I will turn off airplane mode for you.", []),
        ("Would you like me to turn off airplane mode?", []),
        ("Shall I turn off airplane mode?", []),
        ("What does the status bar show? Then turn off airplane mode.", ["bar", "off"]),
        ("Do you see the status bar?", ["bar"]),
        ("Please set the mode to 4g_only.", ["set"]),
        ("Switch it to '4g_only'.", ["set"]),
        ("I see.", []),
    ],
)
def test_an_act_is_done_where_a_sentence_asks_for_it(message: str, done: list[str]) -> None:
    acts = (OFF, BAR, SET) if "airplane" in message or "bar" in message else (OFF, BAR, SET, MODE)
    script = UserScript("Hi.", acts=acts)
    assert [act.action for act in reply(script, begin(script)[0], message)[2]] == done


@pytest.mark.parametrize(("mood", "done"), [("calm", ["a0", "a1", "a2"]), ("hurried", ["a0"]), ("upset", ["a0"])])
def test_mood_bounds_how_much_is_done_at_once(mood: Mood, done: list[str]) -> None:
    acts = tuple(UserAct(f"a{number}", {}, (f"press key {number}",)) for number in range(4))
    script = UserScript("Hi.", acts=acts, mood=mood)
    state, answer, first = reply(script, begin(script)[0], "Please press key 0. Press key 1, press key 2, press key 3.")
    assert [act.action for act in first] == done
    assert f"I did the first {len(done)}, tell me the rest again." in answer
    _, answer, last = reply(script, state, "Please press key 3.")
    assert [act.action for act in last] == ["a3"]
    assert "too much at once" not in answer


radio = Service("radio", "A radio.")


@radio.table()
class Radio(msgspec.Struct, frozen=True):
    id: int
    is_on: bool


@radio.generator
def _fill(make: Generator, _knobs: object) -> None:
    make.insert_all([Radio(1, is_on=False)])


@radio.view(roles=("user",))
def look_at_radio(tx: Transaction) -> str:
    """Looks at the radio."""
    return "It is on." if tx.get(Radio, 1).is_on else "It is off."


@radio.action(roles=("user",))
def switch_radio_on(tx: Transaction) -> None:
    """Switches the radio on."""
    tx.update(tx.get(Radio, 1), is_on=True)


def test_admission_tries_requests_for_all_acts() -> None:
    acts = [UserAct("look_at_radio", {}, ("the radio",)), UserAct("switch_radio_on", {}, ("switch the radio on",))]
    script = msgspec.to_builtins(UserScript("My radio is silent.", acts=tuple(acts)))
    requests = [{"action": "send_message", "arguments": {"text": f"Please {act.cues[0]}."}} for act in acts]
    parameters = {
        "services": [f"{__name__}:radio", "conversation"],
        "knobs": {"conversation": {"script": script}},
        "plan": requests,
    }
    found = ServiceWorld(parameters, 0).shortcuts(0)
    for name in ("all-acts-at-once", "all-acts"):
        assert [call.parsed for call in found[name]] == [{"text": "I need you to switch the radio on."}]
    assert not {"all-acts-at-once", "all-acts"} & set(opened(UserScript("Hi.")).shortcuts(0))


@radio.action()
def call_a_technician(tx: Transaction, summary: FreeText, note: str = "") -> None:
    """Calls somebody who switches the radio on."""
    tx.update(tx.get(Radio, 1), is_on=True)


@radio.action()
def order_part(tx: Transaction, part: Literal["tube", "knob"]) -> None:
    """Orders a part, with which the radio goes on."""
    tx.update(tx.get(Radio, 1), is_on=True)


@pytest.mark.parametrize(("plan", "is_enough"), [("call_a_technician", True), ("current_time", False)])
def test_admission_tries_a_single_call_with_any_text(plan: str, *, is_enough: bool) -> None:
    """A plan that changes nothing is passed by doing nothing, and no single call says more."""
    arguments = {"summary": "The radio is silent."} if is_enough else {}
    steps = [{"action": plan, "arguments": arguments}]
    found = ServiceWorld({"services": [f"{__name__}:radio"], "plan": steps}, 0).shortcuts(0)
    named = {name for name in found if name.startswith("one-call")}
    assert named == ({"one-call-call_a_technician"} if is_enough else set())
    assert all(call.parsed != arguments for name in named for call in found[name])


def test_empty_messages_are_refused() -> None:
    assert opened(UserScript("Hi.")).act("send_message", {"text": "  "}).error


@pytest.mark.parametrize("wrong", [{"goal": 1}, {"facts": [{}]}, {"mood": "sleepy"}])
def test_a_wrong_script_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Knobs of the service 'conversation'"):
        ServiceWorld.of([lending, conversation], 1, {"conversation": {"script": wrong}})


def test_who_asks_again_is_told_what_was_left_out() -> None:
    """A calm person tells three facts at once; the same question brings the others."""
    facts = tuple(Fact(f"f{n}", f"The item {n} is red.", ("item",)) for n in range(5))
    script = UserScript("Hello.", facts)
    state, _ = begin(script)
    for told in (3, 5):
        state, _, _ = reply(script, state, "Which item do you mean?")
        assert len(state.told) == told


def test_an_oracle_leaves_out_mistakes_and_what_is_withheld() -> None:
    wrong = msgspec.structs.replace(TITLE, wrong="It is called Title 9.", corrects_at=2)
    secret = Fact("age", "I am 41 years old.", ("age",), "withheld")
    changes = (ChangeOfMind(3, "Make it Title 5."), ChangeOfMind(1, "Make it Title 4."))
    script = UserScript("I want a book.", (EMAIL, wrong, secret), changes)
    told = f"I want a book. {EMAIL.text} {TITLE.text} Make it Title 4. Make it Title 5."
    assert begin(as_oracle(script))[1] == as_ticket(script) == told
    assert secret.text not in talk(as_oracle(script), "Your age?")[1][0]


def test_who_told_a_fact_does_not_get_it_wrong_afterwards() -> None:
    opened_with = msgspec.structs.replace(EMAIL, disclosure="open", wrong="My email address is n0@example.org.")
    assert talk(UserScript("Hi.", (opened_with,)), "Your email?")[1] == [EMAIL.text]
