"""Calendar of WorkBench.

As in WorkBench, an update of a field that events do not have succeeds and adds the field to all events.

Source: WorkBench, `src/tools/calendar.py`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from assay.environments.services.declaration import Service
from assay.environments.services.schema import identifier
from assay.environments.services.transaction import Generator, Transaction

from .frames import SHOWN, Frame, Record, WorkBenchKnobs, contains, parse_time, read_time, require_text

EventId = Annotated[str, identifier("calendar event", description="8-digit identifier of the event")]

workbench_calendar = Service("workbenchcalendar", "The calendar of WorkBench.", knobs=WorkBenchKnobs)


class Event(msgspec.Struct, frozen=True):
    position: int
    event_id: EventId
    event_name: str | None
    participant_email: str | None
    event_start: str | None
    duration: str | None


_events = Frame(workbench_calendar, Event, "events", identifier="event_id", file="calendar_events.csv")


@workbench_calendar.table()
class AddedField(msgspec.Struct, frozen=True):
    """A field that an update added to all events."""

    field: str


@workbench_calendar.table(key=("position", "field"))
class AddedValue(msgspec.Struct, frozen=True):
    """Value of an added field in one event."""

    position: int
    field: str
    value: str


@workbench_calendar.generator
def _load(make: Generator, knobs: WorkBenchKnobs) -> None:
    _events.fill(make, knobs)


def _records(tx: Transaction, events: list[Event]) -> list[Record]:
    added = [one.field for one in tx.find(AddedField)]
    found = []
    for event in events:
        more: Record = dict.fromkeys(added)
        more |= {one.field: one.value for one in tx.find(AddedValue, position=event.position)} if added else {}
        found.append(_events.record(event) | more)
    return found


@workbench_calendar.view()
def get_event_information_by_id(tx: Transaction, event_id: EventId | None = None, field: str | None = None) -> Record:
    """Returns a field of an event.

    Args:
        event_id: 8-digit identifier of the event.
        field: event_id, event_name, participant_email, event_start or duration.
    """
    event_id = require_text(tx, event_id, "Event ID not provided.")
    field = require_text(tx, field, "Field not provided.")
    events = _records(tx, _events.with_identifier(tx, event_id)[:1])
    tx.require(events, "Event not found.", "not_found")
    tx.require(field in events[0], "Field not found.", "not_found")
    return {field: events[0][field]}


@workbench_calendar.view()
def search_events(
    tx: Transaction, query: str = "", time_min: str | None = None, time_max: str | None = None
) -> list[Record] | str:
    """Returns the first 5 events whose name or participant contains a text.

    Args:
        query: Text that is searched in event_name and participant_email, whatever the case.
        time_min: Earliest start, as YYYY-MM-DD HH:MM:SS.
        time_max: Latest start, as YYYY-MM-DD HH:MM:SS.
    """
    events = [
        event
        for event in _events.rows(tx)
        if contains(event.event_name, query) or contains(event.participant_email, query)
    ]
    if time_min:
        first = parse_time(tx, time_min)
        events = [event for event in events if (start := read_time(event.event_start)) and start >= first]
    if time_max:
        last = parse_time(tx, time_max)
        events = [event for event in events if (start := read_time(event.event_start)) and start <= last]
    return _records(tx, events[:SHOWN]) or "No events found."


@workbench_calendar.action()
def create_event(
    tx: Transaction,
    event_name: str | None = None,
    participant_email: str | None = None,
    event_start: str | None = None,
    duration: str | None = None,
) -> str:
    """Creates an event and returns its identifier.

    Args:
        event_name: Name of the event.
        participant_email: Email address of the participant.
        event_start: Start, as YYYY-MM-DD HH:MM:SS.
        duration: Duration in minutes.
    """
    require_text(tx, event_name, "Event name not provided.")
    participant_email = require_text(tx, participant_email, "Participant email not provided.")
    require_text(tx, event_start, "Event start not provided.")
    require_text(tx, duration, "Event duration not provided.")
    event_id = _events.next_identifier(tx, 8)
    _events.append(
        tx,
        event_id=event_id,
        event_name=event_name,
        participant_email=participant_email.lower(),
        event_start=event_start,
        duration=duration,
    )
    return event_id


@workbench_calendar.action()
def delete_event(tx: Transaction, event_id: EventId | None = None) -> str:
    """Deletes an event.

    Args:
        event_id: 8-digit identifier of the event.
    """
    event_id = require_text(tx, event_id, "Event ID not provided.")
    events = _events.with_identifier(tx, event_id)
    tx.require(events, "Event not found.", "not_found")
    for event in events:
        for value in tx.find(AddedValue, position=event.position):
            tx.delete(value)
        tx.delete(event)
    return "Event deleted successfully."


@workbench_calendar.action()
def update_event(
    tx: Transaction, event_id: EventId | None = None, field: str | None = None, new_value: str | None = None
) -> str:
    """Changes a field of an event.

    Args:
        event_id: 8-digit identifier of the event.
        field: Field to change.
        new_value: New value of the field.
    """
    event_id, field, new_value = (
        require_text(tx, text, "Event ID, field, or new value not provided.") for text in (event_id, field, new_value)
    )
    events = _events.with_identifier(tx, event_id)
    tx.require(events, "Event not found.", "not_found")
    if field == "participant_email":
        new_value = new_value.lower()
    if field in _events.columns:
        _events.update(tx, events, field, new_value)
    else:
        _set_added_field(tx, events, field, new_value)
    return "Event updated successfully."


def _set_added_field(tx: Transaction, events: list[Event], field: str, value: str) -> None:
    if tx.get_or_none(AddedField, field) is None:
        tx.insert(AddedField(field))
    for event in events:
        before = tx.get_or_none(AddedValue, event.position, field)
        if before is None:
            tx.insert(AddedValue(event.position, field, value))
        else:
            tx.update(before, value=value)
