"""The conversation of the agent with the person it serves, as a service: any transport reaches the person by a tool.

The script and the person's state are rows, so that a world that was forked or restored goes on with the same person.
"""

from __future__ import annotations

from typing import Final

import msgspec

from .declaration import Service
from .schema import FreeText, Timestamp
from .transaction import ActionError, Generator, Transaction
from .users import ChecklistItem, UserScript, UserState, begin, checklist_of, reply

_MOST_MESSAGES: Final = 500
SEND: Final = "send_message"
"""Action by which the agent speaks."""


class ConversationKnobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the conversation."""

    script: UserScript = UserScript()


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


class ConversationSummary(msgspec.Struct, frozen=True):
    """What a conversation came to."""

    turns: int
    has_left: bool
    checklist: list[ChecklistItem]


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
    script = msgspec.json.decode(person.script, type=UserScript)
    state, answer, acts = reply(script, msgspec.json.decode(person.state, type=UserState), text)
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


@conversation.summary_of_state
def _summarize(tx: Transaction) -> ConversationSummary:
    """Returns which facts were told, and where."""
    person = tx.get(Person, 1)
    script = msgspec.json.decode(person.script, type=UserScript)
    state = msgspec.json.decode(person.state, type=UserState)
    messages = [message.text if message.sender == "user" else None for message in tx.find(Message)]
    return ConversationSummary(state.turn, state.left, checklist_of(script, state, messages))


def _add(tx: Transaction, sender: str, text: str) -> None:
    tx.insert(Message(tx.count(Message), sender, text, tx.now))


@conversation.generator
def _generate(make: Generator, knobs: ConversationKnobs) -> None:
    """Opens the conversation with the person's first message."""
    state, first = begin(knobs.script)
    make.insert_all([Person(1, msgspec.json.encode(knobs.script).decode(), msgspec.json.encode(state).decode())])
    if first:
        make.insert_all([Message(0, "user", first, make.now)])
