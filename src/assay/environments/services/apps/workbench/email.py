"""Mailbox of WorkBench.

As in WorkBench, a message that is sent after others were deleted overwrites the one whose label it gets.

Source: WorkBench, `src/tools/email.py`.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from assay.environments.services.declaration import Service
from assay.environments.services.schema import identifier
from assay.environments.services.transaction import Generator, Transaction

from .frames import SHOWN, Frame, Record, WorkBenchKnobs, parse_time, read_time, require_text

EmailId = Annotated[str, identifier("workbench email", description="Identifier of the email")]

_SENT: Final = "2023-11-30 00:00:00"
"""Time of every message that is sent."""

workbench_email = Service("workbenchemail", "The mailbox of WorkBench.", knobs=WorkBenchKnobs)


class Email(msgspec.Struct, frozen=True):
    position: int
    email_id: EmailId
    folder: str | None
    correspondent: str | None
    subject: str | None
    sent_datetime: str | None
    body: str | None


_emails = Frame(
    workbench_email,
    Email,
    "emails",
    identifier="email_id",
    file="emails.csv",
    columns={"folder": "inbox/outbox", "correspondent": "sender/recipient"},
)


@workbench_email.generator
def _load(make: Generator, knobs: WorkBenchKnobs) -> None:
    _emails.fill(make, knobs)


@workbench_email.view()
def get_email_information_by_id(tx: Transaction, email_id: EmailId | None = None, field: str | None = None) -> Record:
    """Returns a field of an email.

    Args:
        email_id: Identifier of the email.
        field: email_id, inbox/outbox, sender/recipient, subject, sent_datetime or body.
    """
    email_id = require_text(tx, email_id, "Email ID not provided.")
    field = require_text(tx, field, "Field not provided.")
    record = _emails.record(_email(tx, email_id))
    tx.require(field in record, "Field not found.", "not_found")
    return {field: record[field]}


@workbench_email.view()
def search_emails(
    tx: Transaction, query: str = "", date_min: str | None = None, date_max: str | None = None
) -> list[Record] | str:
    """Returns the latest 5 emails in which each word of a text occurs.

    Args:
        query: Words that are searched in subject, body, and sender or recipient, whatever the case.
        date_min: Earliest date, as YYYY-MM-DD.
        date_max: Latest date, as YYYY-MM-DD.
    """
    words = query.lower().split()
    emails = [email for email in _emails.rows(tx) if _matches(email, words)]
    emails.sort(key=lambda email: email.sent_datetime or "", reverse=True)
    if date_min:
        first = parse_time(tx, date_min).date()
        emails = [email for email in emails if (sent := read_time(email.sent_datetime)) and sent.date() >= first]
    if date_max:
        last = parse_time(tx, date_max).date()
        emails = [email for email in emails if (sent := read_time(email.sent_datetime)) and sent.date() <= last]
    return [_emails.record(email) for email in emails[:SHOWN]] or "No emails found."


@workbench_email.action()
def send_email(
    tx: Transaction, recipient: str | None = None, subject: str | None = None, body: str | None = None
) -> str:
    """Sends an email.

    Args:
        recipient: Email address of the recipient.
        subject: Subject of the email.
        body: Text of the email.
    """
    _send(tx, recipient, subject, body)
    return "Email sent successfully."


@workbench_email.action()
def delete_email(tx: Transaction, email_id: EmailId | None = None) -> str:
    """Deletes an email.

    Args:
        email_id: Identifier of the email.
    """
    email_id = require_text(tx, email_id, "Email ID not provided.")
    _email(tx, email_id)
    _emails.remove(tx, _emails.with_identifier(tx, email_id))
    return "Email deleted successfully."


@workbench_email.action()
def forward_email(tx: Transaction, email_id: EmailId | None = None, recipient: str | None = None) -> str:
    """Forwards an email.

    Args:
        email_id: Identifier of the email.
        recipient: Email address of the recipient.
    """
    email_id, recipient = (
        require_text(tx, text, "Email ID or recipient not provided.") for text in (email_id, recipient)
    )
    email = _email(tx, email_id)
    _send(tx, recipient, f"FW: {email.subject}", email.body)
    return "Email forwarded successfully."


@workbench_email.action()
def reply_email(tx: Transaction, email_id: EmailId | None = None, body: str | None = None) -> str:
    """Replies to an email.

    Args:
        email_id: Identifier of the email.
        body: Text of the reply.
    """
    email_id, body = (require_text(tx, text, "Email ID or body not provided.") for text in (email_id, body))
    email = _email(tx, email_id)
    _send(tx, email.correspondent, email.subject, body)
    return "Email replied successfully."


def _matches(email: Email, words: list[str]) -> bool:
    text = f"{email.subject} {email.body} {email.correspondent}".lower()
    return all(word in text for word in words)


def _email(tx: Transaction, email_id: str) -> Email:
    found = _emails.with_identifier(tx, email_id)
    if not found:
        tx.refuse("Email not found.", "not_found")
    return found[0]


def _send(tx: Transaction, recipient: str | None, subject: str | None, body: str | None) -> None:
    recipient, subject, body = (
        require_text(tx, text, "Recipient, subject, or body not provided.") for text in (recipient, subject, body)
    )
    tx.require("@" in recipient and "." in recipient, "Invalid recipient email address.")
    _emails.assign_last(
        tx,
        email_id=_emails.next_identifier(tx),
        folder="outbox",
        correspondent=recipient.lower(),
        subject=subject,
        sent_datetime=_SENT,
        body=body,
    )
