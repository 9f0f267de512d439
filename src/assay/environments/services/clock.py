"""The clock that all services of a world share, and the events that it runs.

Time passes only by an action that says so, never by a call as such: a plan that reads twice ends in the same state.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from .declaration import Service
from .schema import Timestamp
from .transaction import Transaction, shift_time

START = "2026-03-02T09:00"
"""Monday morning, when every world begins."""
MOST_DAYS: Final = 100
"""Days after the start beyond which no world can be waited in: what happens meanwhile costs time and memory."""

clock = Service("clock", "The time of this world.")


@clock.table("time", judged=False)
class ClockTime(msgspec.Struct, frozen=True):
    """The time, in one row."""

    id: int
    now: Timestamp


@clock.table("scheduled", indexes=[("at",)], judged=False)
class ScheduledEvent(msgspec.Struct, frozen=True):
    """An event that has not happened."""

    id: int
    at: Timestamp
    service: str
    name: str
    payload: str
    """Arguments of the event as JSON."""


@clock.view(roles=("agent", "user"))
def current_time(tx: Transaction) -> str:
    """Returns the date and time of this world."""
    return tx.now


@clock.action(roles=("agent", "user"))
def wait(tx: Transaction, hours: Annotated[int, Meta(ge=1, le=24 * 31)]) -> str:
    """Lets time pass. Things that are due happen meanwhile.

    Args:
        hours: Number of hours to wait.
    """
    end, last = tx.later(hours=hours), shift_time(START, days=MOST_DAYS)
    tx.require(end <= last, f"The calendar of this world ends at {last}; wait for a shorter time.", "unavailable")
    tx.advance(end)
    return tx.now
