"""Attachments: files on the issues of the tracker, in worlds that have both services.

Rights are those of the tracker: whoever may change an issue may attach a file, and an attachment is removed by whoever
attached it or by a maintainer of the project.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from assay.environments.services.declaration import Policy, Service
from assay.environments.services.files import (
    PICTURES,
    FileDigest,
    FileName,
    draw_content,
    find_file,
    store_content,
    text_of,
)
from assay.environments.services.files import File as StoredFile
from assay.environments.services.schema import Timestamp, identifier
from assay.environments.services.transaction import Generator, Transaction

from .tracker import Issue, IssueId, MemberId, is_project_maintainer, tell_watchers, writable_issue

POLICY: Final = """
# Files on issues

Attach only files that the person you serve names. A file is attached once to an issue; files that are wrong are removed
rather than attached again under another name. Only texts, tables, pictures, PDF and exported pages are taken.
"""
ACCEPTED: Final = PICTURES | {
    "application/json",
    "application/pdf",
    "image/svg+xml",
    "text/csv",
    "text/html",
    "text/plain",
}
"""Types of files that can be attached."""
MOST_ATTACHED: Final = 20
"""Attachments of one issue."""

AttachmentId = Annotated[str, identifier("attachment", "ATT-")]


class AttachmentsKnobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the generator."""

    attachments: Annotated[int, Meta(ge=0, le=500)] = 24
    """Attachments that issues have at the beginning."""


attachments = Service(
    "attachments",
    "Files on the issues of the tracker.",
    knobs=AttachmentsKnobs,
    policy=Policy(POLICY),
    needs=("tracker",),
)


@attachments.table(indexes=[("issue_id",)], unique=[("issue_id", "name")])
class Attachment(msgspec.Struct, frozen=True):
    id: AttachmentId
    issue_id: IssueId
    member_id: MemberId
    name: str
    digest: FileDigest
    size: int
    """Bytes."""
    media_type: str
    attached: Timestamp


@attachments.describe(Attachment)
def describe_attachment(tx: Transaction, attachment: Attachment) -> str:
    return f"the file “{attachment.name}” on the issue “{tx.get(Issue, attachment.issue_id).title}”"


@attachments.view()
def list_attachments(tx: Transaction, issue_id: IssueId) -> list[Attachment]:
    """Lists the files on an issue, by name."""
    tx.get(Issue, issue_id)
    return tx.find(Attachment, issue_id=issue_id, order_by="name")


@attachments.view()
def read_attachment(tx: Transaction, attachment_id: AttachmentId) -> str:
    """Returns the text of an attached file, at most 20,000 characters of it."""
    found = tx.get(Attachment, attachment_id)
    return text_of(tx, StoredFile(found.name, found.digest, found.size, found.media_type))


@attachments.action(wish="attach {file} to {issue_id}")
def attach_file(tx: Transaction, issue_id: IssueId, file: FileName) -> Attachment:
    """Attaches a file to an issue, closed ones included. Its watchers get mail."""
    issue, me = writable_issue(tx, issue_id)
    given = find_file(tx, file)
    tx.require(given.media_type in ACCEPTED, f"{file!r} has the type {given.media_type}, which is not taken here.")
    present = tx.find(Attachment, issue_id=issue_id)
    tx.require(len(present) < MOST_ATTACHED, f"Issue {issue_id} has {MOST_ATTACHED} files already.", "conflict")
    if any(other.name == file for other in present):
        tx.refuse(f"Issue {issue_id} has a file {file!r} already.", "conflict")
    tell_watchers(tx, issue, me, f"{me.name} attached {file}.")
    return tx.insert(
        Attachment(tx.new_id(Attachment), issue_id, me.id, file, given.digest, given.size, given.media_type, tx.now)
    )


@attachments.action(wish="remove {attachment_id}")
def remove_attachment(tx: Transaction, attachment_id: AttachmentId) -> Attachment:
    """Removes a file from an issue: one's own, or as a maintainer anybody's."""
    found = tx.get(Attachment, attachment_id)
    issue, me = writable_issue(tx, found.issue_id)
    if found.member_id != me.id and not is_project_maintainer(tx, issue.project_id, me):
        tx.refuse(f"Attachment {attachment_id} is not by {me.name}.", "forbidden")
    tx.delete(found)
    return found


_NAMES: Final = ("screenshot", "trace", "measurement", "draft", "notes", "comparison")


@attachments.generator
def generate(g: Generator, knobs: AttachmentsKnobs) -> None:
    """Puts files on issues, as their reporters attached them."""
    issues = g.find(Issue)
    if not issues:
        return
    taken: set[tuple[str, str]] = set()
    rows = []
    for _ in range(knobs.attachments):
        issue = g.draw.choice(issues)
        ending = g.draw.choice(("log", "csv", "txt", "png"))
        name = f"{g.draw.choice(_NAMES)}-{g.draw.randint(1, 99):02}.{ending}"
        if (issue.id, name) in taken:
            continue
        taken.add((issue.id, name))
        stored = store_content(g, name, draw_content(g.draw, name.partition("-")[0], ending))
        rows.append(
            Attachment(
                g.new_id(Attachment), issue.id, issue.reporter_id, name, stored.digest, stored.size, stored.media_type,
                issue.created,
            )
        )  # fmt: skip
    g.insert_all(rows)
