"""The turns of a BFCL task: a person's requests one after the other, and the record of what each turn led to.

The person says the next request when the agent ends a turn, whatever it did. At the end of a turn the state of each
tool class is recorded as a digest, and each result of a tool as another, so that a turn can be judged as BFCL does: by
the states at its end, and by the results that were obtained until then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from blake3 import blake3

from assay.environments.services.declaration import Service
from assay.environments.services.schema import FreeText
from assay.environments.services.transaction import Generator, Transaction

from .file_system import files
from .math_api import arithmetic
from .message_api import messages
from .posting_api import posting
from .ticket_api import tickets
from .tool_class import ADDED, CALLED, ToolClass
from .trading_bot import trading
from .travel_booking import travel
from .vehicle_control import vehicle

CLASSES: Final[Mapping[str, ToolClass[Any]]] = {
    one.original: one for one in (files, arithmetic, messages, posting, tickets, trading, travel, vehicle)
}
"""The tool classes by their names in BFCL."""


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Message of the person at the beginning of a turn."""

    text: str
    tools: tuple[str, ...] = ()
    """Tools that become available in this turn."""


class TurnsKnobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the turns."""

    requests: tuple[Request, ...] = ()
    """One for each turn."""
    classes: tuple[str, ...] = ()
    """Tool classes of the task, by their names in BFCL."""


turns: Final = Service("bfclturns", "The person who wants something, turn by turn.", knobs=TurnsKnobs)


@turns.table(judged=False)
class Script(msgspec.Struct, frozen=True):
    """The person's messages to come, in one row."""

    id: int
    knobs: str
    """`TurnsKnobs` as JSON."""


@turns.table(judged=False)
class Message(msgspec.Struct, frozen=True):
    """A message, in the order in which they were sent."""

    number: int
    sender: str
    """`agent` or `user`."""
    text: FreeText


@turns.table(judged=False)
class Result(msgspec.Struct, frozen=True):
    """A result of a tool, in the order of the calls."""

    number: int
    turn: int
    digest: str


@turns.table(judged=False)
class EndedTurn(msgspec.Struct, frozen=True):
    """A turn that has ended."""

    turn: int
    states: str
    """Digest of each class's state at its end, as JSON."""


class TurnReport(msgspec.Struct, frozen=True):
    """Result of a turn."""

    called: bool
    """True if a tool was called in it."""
    missing: int
    """Number of wanted results that were not obtained until its end."""
    states: dict[str, str]
    """Digest of each class's state at its end."""


def result_digest(text: str) -> str:
    """Returns the digest of a tool's result."""
    return blake3(text.encode()).hexdigest(16)


@turns.action()
def end_turn(tx: Transaction, message: FreeText) -> str:
    """Ends your turn: says something to the person, and returns what they say next.

    Args:
        message: What you tell or ask the person.
    """
    script, turn = _read_script(tx), tx.count(EndedTurn)
    tx.require(turn < len(script.requests), "The person has left the conversation.", "unavailable")
    tx.insert(EndedTurn(turn, msgspec.json.encode(_digests(tx, script)).decode()))
    tx.insert(Message(2 * turn + 1, "agent", message))
    if turn + 1 == len(script.requests):
        return "The person has left the conversation."
    request = script.requests[turn + 1]
    tx.insert(Message(2 * turn + 2, "user", request.text))
    if request.tools:
        tx.publish(ADDED, tools=list(request.tools))
    return request.text


@turns.view()
def read_messages(tx: Transaction) -> list[Message]:
    """Returns what you and the person have said, the first message first."""
    return tx.find(Message)


@turns.view(roles=("system",))
def report_turns(tx: Transaction, wanted: list[list[str] | None]) -> list[TurnReport | None]:
    """Reports what each turn led to; the one that has not ended, by the state as it is.

    Args:
        wanted: Digests of the results that each turn wants; None for a turn that is not judged.
    """
    script = _read_script(tx)
    ended = [msgspec.json.decode(one.states, type=dict[str, str]) for one in tx.find(EndedTurn)]
    found = tx.find(Result)
    reports: list[TurnReport | None] = []
    for turn, results in enumerate(wanted):
        if results is None or turn > len(ended):
            reports.append(None)
            continue
        obtained = Counter(one.digest for one in found if one.turn <= turn)
        states = ended[turn] if turn < len(ended) else _digests(tx, script)
        missing = (Counter(results) - obtained).total()
        reports.append(TurnReport(any(one.turn == turn for one in found), missing, states))
    return reports


@turns.subscribe(CALLED)
def _record_result(tx: Transaction, text: str) -> None:
    """Records the result of a tool."""
    tx.insert(Result(tx.count(Result), tx.count(EndedTurn), result_digest(text)))


@turns.generator
def _generate(make: Generator, knobs: TurnsKnobs) -> None:
    """Opens the conversation with the person's first request."""
    if unknown := sorted(set(knobs.classes) - set(CLASSES)):
        raise ValueError(f"Unknown tool class {unknown[0]!r}; there are {', '.join(CLASSES)}")
    make.insert_all([Script(1, msgspec.json.encode(knobs).decode())])
    make.insert_all([Message(0, "user", request.text) for request in knobs.requests[:1]])


def _read_script(tx: Transaction) -> TurnsKnobs:
    return msgspec.json.decode(tx.get(Script, 1).knobs, type=TurnsKnobs)


def _digests(tx: Transaction, script: TurnsKnobs) -> dict[str, str]:
    return {name: CLASSES[name].digest(tx) for name in script.classes}
