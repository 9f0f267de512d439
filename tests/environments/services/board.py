"""A small service with free text for tests of disturbances, and a plan on it."""

from __future__ import annotations

import json
from typing import Annotated, Final

import msgspec

from assay.environments.services.declaration import Policy, Service
from assay.environments.services.disturbances.world import DisturbedWorld
from assay.environments.services.plans import PlannedCall
from assay.environments.services.schema import FreeText, identifier
from assay.environments.services.transaction import Generator, Transaction
from assay.environments.services.world import ServiceWorld
from assay.environments.wrapping import parse_wrappers

board = Service("board", "A board of notes.", policy=Policy("Never call `purge_notes`: use `close_note`."))
NoteId = Annotated[str, identifier("note", "NOTE-")]


@board.table()
class Note(msgspec.Struct, frozen=True):
    """A note."""

    id: NoteId
    title: str
    body: FreeText
    closed: bool = False
    at: str = ""


@board.view()
def list_notes(tx: Transaction, limit: int = 50) -> list[Note]:
    """Lists notes. Then call `get_note`."""
    return tx.find(Note, limit=limit)


@board.view()
def get_note(tx: Transaction, note_id: NoteId) -> Note:
    """Shows a note."""
    return tx.get(Note, note_id)


@board.action(wish="close {note_id}")
def close_note(tx: Transaction, note_id: NoteId) -> Note:
    """Closes a note."""
    note = tx.get(Note, note_id)
    tx.require(not note.closed, "It is closed.", "conflict")
    return tx.update(note, closed=True)


@board.action()
def add_note(tx: Transaction, title: str, body: FreeText) -> Note:
    """Adds a note."""
    return tx.insert(Note(tx.new_id(Note), title, body))


@board.action()
def stamp_note(tx: Transaction, note_id: NoteId) -> Note:
    """Stamps a note with the time."""
    return tx.update(tx.get(Note, note_id), at=tx.now)


@board.generator
def fill(make: Generator, knobs: object) -> None:
    words = "please cancel the booking of the blue kettle because it arrived without its cable"
    make.insert_all(
        [Note(make.new_id(Note), f"Blue kettle {n}", f"{words} {n}, order ORD-12345{n}.") for n in range(9)]
    )


NAME: Final = f"{__name__}:board"
SEED: Final = 3
IDS = [note["id"] for note in json.loads(ServiceWorld.of([board], SEED).act("list_notes", {}).content)]
PLAN = (
    PlannedCall("list_notes", {"limit": 8}),
    PlannedCall("get_note", {"note_id": IDS[0]}),
    PlannedCall("close_note", {"note_id": IDS[0]}),
    PlannedCall("close_note", {"note_id": IDS[1]}),
    PlannedCall("get_note", {"note_id": IDS[0]}),
)


def open_board(spec: str = "", plan: tuple[PlannedCall, ...] = PLAN) -> DisturbedWorld:
    service = ServiceWorld.of([board], SEED)
    service.plan = plan
    return DisturbedWorld(service, parse_wrappers(spec) if spec else [])
