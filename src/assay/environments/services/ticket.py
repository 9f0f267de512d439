"""The ticket that an agent works on, as a service: answers and refusals are typed calls, so that no text is judged.

A refusal names a record that only reading can show. Refusing without having looked is therefore no shortcut.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from .declaration import Policy, Service
from .transaction import Transaction

MOST_REQUESTS: Final = 50
MOST_ROWS: Final = 200
ANSWERS: Final = "ticket_answers"
"""Table of answers; their rows are judged by the check `answer`."""
DECLINED: Final = "ticket_refusals"
"""Table of refusals; their rows are part of the outcome, which the check `state` judges."""

Number = Annotated[int, Meta(ge=1, le=MOST_REQUESTS, description="Number of the request, from 1")]
Cell = Annotated[str, Meta(max_length=500)]
Reason = Literal["not_possible", "not_allowed", "unclear"]

POLICY = Policy(
    "The requests of a ticket are numbered in the order in which they are made. If one cannot be carried out as it is "
    "asked for, is forbidden by a policy, or fits several records, then do no part of it: decline it with "
    "`decline_request` and name the record that it is about (one of them if it fits several). Answer a question with "
    "`answer_question`: amounts as 39.90, dates as 2026-03-05, times as 2026-03-05T14:30, names as the records have "
    "them."
)

ticket = Service("ticket", "The ticket with the requests to be handled.", policy=POLICY)


@ticket.table()
class Refusal(msgspec.Struct, frozen=True):
    """A request that was declined."""

    request: int
    reason: Reason
    record_id: str


@ticket.table()
class Answer(msgspec.Struct, frozen=True):
    """The answer to a question, the last one that was given."""

    request: int
    rows: str
    """List of lists of strings, as JSON."""


@ticket.action()
def decline_request(
    tx: Transaction, request: Number, reason: Reason, record_id: Annotated[str, Meta(max_length=200)]
) -> Refusal:
    """Declines a request of the ticket, which cannot be taken back.

    Args:
        request: Its number, from 1.
        reason: `not_possible` if the records do not permit it, `not_allowed` if a policy forbids it, `unclear` if it
            fits several records.
        record_id: Identifier of the record that the request is about.
    """
    tx.require(tx.get_or_none(Refusal, request) is None, f"Request {request} was declined before.", "conflict")
    return tx.insert(Refusal(request, reason, record_id))


@ticket.action()
def answer_question(
    tx: Transaction,
    request: Number,
    rows: Annotated[list[Annotated[list[Cell], Meta(max_length=20)]], Meta(min_length=1, max_length=MOST_ROWS)],
) -> Answer:
    """Answers a question of the ticket; a second answer replaces the first.

    Args:
        request: Its number, from 1.
        rows: The answer as a table: [["39.90"]] for one value, one row for each item of a list, and one cell for each
            thing that was asked about an item.
    """
    text = msgspec.json.encode(rows).decode()
    given = tx.get_or_none(Answer, request)
    return tx.insert(Answer(request, text)) if given is None else tx.update(given, rows=text)
