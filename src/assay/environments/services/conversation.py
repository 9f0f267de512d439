"""The conversation of the agent with the person it serves, as a service: any transport reaches the person by a tool.

The script and the person's state are rows, so that a world that was forked or restored goes on with the same person.

The answers of a person who is driven by a model are inputs: `give_answer` puts one in before the message that it
answers is sent. The world asks no model, so that the same calls lead to the same state again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec.structs import replace

from .declaration import Service
from .faithfulness import DialogueTurn, advance
from .schema import FreeText, Timestamp
from .transaction import ActionError, Generator, Transaction
from .users import ChecklistItem, UserAct, UserScript, UserState, begin, checklist_of, read_consent, reply

if TYPE_CHECKING:
    from .world import ServiceWorld

_MOST_MESSAGES: Final = 500
SEND: Final = "send_message"
"""Action by which the agent speaks."""


GIVE_ANSWER: Final = "give_answer"
"""Action by which the answer of a person who is driven by a model enters the world."""


class ConversationKnobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Options of the conversation."""

    script: UserScript = UserScript()
    driver: Literal["rules", "model"] = "rules"
    """Who chooses the person's words after the first message."""


class PendingAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer to a message that is not sent yet."""

    number: int
    """Number of messages before it."""
    text: str
    leaves: bool


class ModelUserState(UserState, frozen=True, forbid_unknown_fields=True):
    """State of a person who is driven by a model."""

    driver: Literal["model"] = "model"
    answer: PendingAnswer | None = None
    unclear: tuple[int, ...] = ()
    """Turns at which they may have said yes, in words that the rule of `read_consent` does not decide."""


conversation = Service("conversation", "A conversation with the person whom the agent serves.", knobs=ConversationKnobs)


@conversation.table(judged=False)
class Message(msgspec.Struct, frozen=True):
    """A message, in the order in which they were sent."""

    number: int
    sender: str
    """`agent` or `user`."""
    text: FreeText
    at: Timestamp


@conversation.table("people", judged=False)
class Person(msgspec.Struct, frozen=True):
    """The person, in one row."""

    id: int
    script: str
    """`UserScript` as JSON."""
    state: str
    """`UserState` as JSON."""


@conversation.action(roles=("user",))
def give_answer(tx: Transaction, text: FreeText, *, leaves: bool = False) -> None:
    """Gives the answer to the next message, in place of what rules would say.

    Args:
        text: What the person says.
        leaves: Whether they leave the conversation with it.
    """
    person = tx.get(Person, 1)
    _, state = read_person(person)
    if not isinstance(state, ModelUserState):
        raise ActionError("The person follows rules.", "forbidden")
    tx.require(text.strip(), "The answer is empty.")
    state = replace(state, answer=PendingAnswer(tx.count(Message), text, leaves))
    tx.update(person, state=msgspec.json.encode(state).decode())


class ConversationSummary(msgspec.Struct, frozen=True):
    """Summary of a conversation."""

    turns: int
    has_left: bool
    checklist: list[ChecklistItem]
    agreed: tuple[int, ...] = ()
    """Turns at which the person said yes."""
    unclear: tuple[int, ...] = ()
    """Turns at which it is unknown whether a person whom a model drives said yes."""


@conversation.view()
def read_messages(tx: Transaction) -> list[Message]:
    """Returns all messages of this conversation, the first one first."""
    return tx.find(Message)


@conversation.action()
def send_message(tx: Transaction, text: FreeText) -> str:
    """Sends a message to the person whom you serve, and returns their answer.

    Args:
        text: What you say. Ask for what you need to know, and tell the person what they need to know.
    """
    tx.require(text.strip(), "The message is empty.")
    tx.require(tx.count(Message) < _MOST_MESSAGES, "The conversation is too long.", "unavailable")
    person = tx.get(Person, 1)
    script, state = read_person(person)
    acts: tuple[UserAct, ...] = ()
    if isinstance(state, ModelUserState) and not state.left:
        given = state.answer
        if given is None or given.number != tx.count(Message):
            raise ActionError("The person is not there to answer.", "unavailable")
        answer = given.text
        state = _hear(script, state, text, given)
    else:
        state, answer, acts = reply(script, state, text)
    _add(tx, "agent", text)
    for act in acts:
        try:
            result = tx.call_as_user(act.action, act.arguments)
        except ActionError as exc:
            answer += f" It says: {exc}"
        else:
            answer += f" It says: {result}" if act.says_result else ""
    _add(tx, "user", answer)
    tx.update(person, state=msgspec.json.encode(state).decode())
    return answer


def _hear(script: UserScript, state: ModelUserState, text: str, given: PendingAnswer) -> ModelUserState:
    """Returns the state of a person whom a model drives after an answer to a message."""
    after = advance(script, state, DialogueTurn(text, given.text, has_left=given.leaves))
    assert isinstance(after, ModelUserState)  # `advance` keeps the kind
    consent = read_consent(text, given.text)
    return replace(
        after,
        answer=None,
        agreed=(*after.agreed, after.turn) if consent == "yes" else after.agreed,
        unclear=(*after.unclear, after.turn) if consent == "unclear" else after.unclear,
    )


@conversation.summary_of_state
def _summarize(tx: Transaction) -> ConversationSummary:
    """Returns which facts were told, and where."""
    script, state = read_person(tx.get(Person, 1))
    messages = [message.text if message.sender == "user" else None for message in tx.find(Message)]
    unclear = state.unclear if isinstance(state, ModelUserState) else ()
    return ConversationSummary(state.turn, state.left, checklist_of(script, state, messages), state.agreed, unclear)


def read_person(person: Person) -> tuple[UserScript, UserState]:
    """Returns script and state of a person; the state is a `ModelUserState` where a model drives them."""
    state = msgspec.json.decode(person.state)
    kind = ModelUserState if "driver" in state else UserState
    return msgspec.json.decode(person.script, type=UserScript), msgspec.convert(state, kind)


def person_of(world: ServiceWorld) -> tuple[UserScript, UserState] | None:
    """Returns script and state of a world's person, as `read_person`; None for a world without one."""
    if Person not in world.composition.by_row:
        return None
    table = world.tables[Person]
    (values,) = world.database.rows(table)
    return read_person(table.to_row(values))


def is_driven_by_model(world: ServiceWorld) -> bool:
    """Returns whether a world has a person whose words a model chooses."""
    found = person_of(world)
    return found is not None and isinstance(found[1], ModelUserState)


def _add(tx: Transaction, sender: str, text: str) -> None:
    tx.insert(Message(tx.count(Message), sender, text, tx.now))


@conversation.generator
def _generate(make: Generator, knobs: ConversationKnobs) -> None:
    """Opens the conversation with the person's first message."""
    state, first = begin(knobs.script)
    if knobs.driver == "model":
        state = ModelUserState(**{name: getattr(state, name) for name in UserState.__struct_fields__})
    make.insert_all([Person(1, msgspec.json.encode(knobs.script).decode(), msgspec.json.encode(state).decode())])
    if first:
        make.insert_all([Message(0, "user", first, make.now)])
