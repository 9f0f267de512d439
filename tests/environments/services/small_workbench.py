"""A small database of our own in WorkBench's form, for tests without its data."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path

EVENTS = [
    ["event_id", "event_name", "participant_email", "event_start", "duration"],
    ["00000001", "Tea with Ada", "ada.hill@example.org", "2023-12-01 09:00:00", "30"],
    ["00000000", "Review", "bo.lund@example.org", "2023-12-02 10:00:00", "60"],
    ["00000002", "Walk", "ada.hill@example.org", "2023-12-03 11:00:00", "60"],
]
EMAILS = [
    ["email_id", "inbox/outbox", "sender/recipient", "subject", "sent_datetime", "body"],
    ["00000000", "inbox", "ada.hill@example.org", "Tea", "2023-11-01 09:00:00", "Dear Sam,\\n\\nTea, at nine?"],
    ["00000001", "inbox", "bo.lund@example.org", "Review", "2023-11-02 09:00:00", "Please review it."],
    ["00000002", "outbox", "bo.lund@example.org", "Re: Review", "2023-11-03 09:00:00", "It is done."],
]
VISITS = [
    ["date_of_visit", "visitor_id", "page_views", "session_duration_seconds", "traffic_source", "user_engaged"],
    ["2023-11-02", "0001", "8", "4", "referral", "False"],
    ["2023-11-01", "0002", "3", "12", "direct", "True"],
    ["2023-11-01", "0001", "7", "1", "direct", "False"],
]
TASKS = [
    ["task_id", "task_name", "assigned_to_email", "list_name", "due_date", "board"],
    ["00000001", "Paint", "ada.hill@example.org", "Backlog", "2023-11-27", "Design"],
    ["00000000", "Build", "bo.lund@example.org", "In Progress", "2023-11-28", "Back end"],
    ["00000002", "Sweep", "bo.lund@example.org", "Completed", "2023-11-29", "Front end"],
]
CUSTOMERS = [
    [
        "customer_id",
        "assigned_to_email",
        "customer_name",
        "customer_email",
        "customer_phone",
        "last_contact_date",
        "product_interest",
        "status",
        "follow_up_by",
        "notes",
    ],
    ["00000000", "ada.hill@example.org", "Cy Moss", "cy@moss", "", "2023-11-30", "Software", "Lead", "2023-12-22", ""],
    ["00000001", "bo.lund@example.org", "Di Fox", "di@fox", "123", "2023-11-10", "Training", "Won", "2023-12-01", "Hi"],
]
ADDRESSES = [["ada.hill@example.org"], ["bo.lund@example.org"]]
QUERIES: dict[str, list[tuple[str, str, str]]] = {
    "multi_domain": [
        (
            "Delete the walk and tell Bo.",
            r"""['calendar.delete_event.func(event_id="00000002")', 'email.send_email.func(recipient="bo.lund@"""
            r"""example.org", subject="Walk", body="It is off.\n\nSam")']""",
            "['calendar', 'email']",
        ),
    ],
    "email": [("Delete the last email from Cy.", "[]", "['email']")],
    "calendar": [
        (
            "Call the review a talk.",
            """['calendar.update_event.func(event_id="00000000", field="event_name", new_value="Talk")']""",
            "['calendar']",
        ),
        (
            "Call the walk a walk.",
            """['calendar.update_event.func(event_id="00000002", field="event_name", new_value="WALK")']""",
            "['calendar']",
        ),
    ],
    "analytics": [],
    "project_management": [
        (
            "Move painting to review.",
            """['project_management.update_task.func(task_id="00000001", field="list_name", new_value="In Review")']""",
            "['project_management']",
        ),
    ],
    "customer_relationship_manager": [
        (
            "Delete Di Fox.",
            """['customer_relationship_manager.delete_customer.func(customer_id="00000001")']""",
            "['crm']",
        ),
    ],
}


def write_workbench(folder: Path, inside: str = "", *, compressed: bool = False) -> Path:
    """Writes the files, below `inside`, and returns the folder that a user names."""
    place = folder / inside
    contents: dict[str, Sequence[Sequence[str]]] = {
        "calendar_events.csv": EVENTS,
        "emails.csv": EMAILS,
        "analytics_data.csv": VISITS,
        "project_tasks.csv": TASKS,
        "customer_relationship_manager_data.csv": CUSTOMERS,
        "email_addresses.csv": ADDRESSES,
    }
    for domain, queries in QUERIES.items():
        header = ("query", "answer", "base_template", "chosen_template", "domains")
        rows = [header, *((text, answer, "template", "template", domains) for text, answer, domains in queries)]
        contents[f"queries_and_answers/{domain}_queries_and_answers.csv"] = rows
    for name, table in contents.items():
        stream = io.StringIO(newline="")
        csv.writer(stream, lineterminator="\n").writerows(table)
        path = place / (f"{name}.gz" if compressed else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        data = stream.getvalue().encode()
        path.write_bytes(gzip.compress(data) if compressed else data)
    return folder
