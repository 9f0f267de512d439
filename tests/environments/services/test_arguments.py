"""Identifiers, dates and searches: what actions take, and what rows refer to."""

from __future__ import annotations

import json
from typing import Annotated

import msgspec
import pytest

from assay.environments.services.declaration import Service
from assay.environments.services.schema import Date, identifier
from assay.environments.services.transaction import Generator, Transaction
from assay.environments.services.world import ServiceWorld

diary = Service("diary", "Notes.")
NoteId = Annotated[str, identifier("note", "NOTE-")]


@diary.table()
class Note(msgspec.Struct, frozen=True):
    id: NoteId
    day: Date
    text: str


@diary.table()
class Colour(msgspec.Struct, frozen=True):
    """Of some notes: its key is a note's, so that it refers to one."""

    note_id: NoteId
    name: str


@diary.action()
def paint_note(tx: Transaction, note_id: NoteId) -> Colour:
    """Paints a note."""
    return tx.insert(Colour(note_id, "red"))


@diary.view()
def find_notes(  # noqa: D417
    tx: Transaction, text: str, day: Date | None = None, after: NoteId | None = None, offset: int = 0
) -> list[Note]:
    """Finds notes.

    Args:
        day: Only of this day.
        after: Only those after this one.
    """
    return tx.search(Note, text, "text", order_by="-text", offset=offset, **({} if day is None else {"day": day}))


@diary.generator
def fill(make: Generator, knobs: object) -> None:
    texts = ["red fox", "red hen", "grey fox", "Red FOX again"]
    make.insert_all([Note(make.new_id(Note), f"2026-03-0{1 + at % 2}", text) for at, text in enumerate(texts)])


def texts(**arguments: object) -> list[str]:
    observation = ServiceWorld.of([diary]).act("find_notes", arguments)
    assert not observation.error, observation.content
    return [note["text"] for note in json.loads(observation.content)]


def test_an_optional_described_argument_keeps_its_kind_and_unit() -> None:
    action = diary.actions["find_notes"]
    assert action.takes == {"after": "note"}
    assert action.units == {"day": "date"}


@pytest.mark.parametrize("day", ["2026-02-30", "2026-13-01", "2026-03-02\n"])
def test_a_date_that_does_not_exist_is_refused(day: str) -> None:
    observation = ServiceWorld.of([diary]).act("find_notes", {"text": "", "day": day})
    assert observation.content.startswith("Error (invalid): Wrong arguments for find_notes: `day` is ")


def test_the_first_table_of_a_kind_is_the_one_that_is_referred_to() -> None:
    world = ServiceWorld.of([diary])
    note = json.loads(world.act("find_notes", {"text": "hen"}).content)[0]
    assert not world.act("paint_note", {"note_id": note["id"]}).error
    assert world.act("paint_note", {"note_id": "NOTE-1"}).content.startswith("Error (conflict): The change cannot")


def test_search_is_ordered_filtered_and_paged() -> None:
    assert texts(text="RED fox") == ["red fox", "Red FOX again"]
    assert texts(text="") == ["red hen", "red fox", "grey fox", "Red FOX again"]
    assert texts(text="", offset=3) == ["Red FOX again"]
    assert texts(text="fox", day="2026-03-02") == ["Red FOX again"]
    assert texts(text="owl") == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), [{"x": float("nan")}]])
def test_numbers_that_are_not_finite_are_refused(value: object) -> None:
    """JSON has no such numbers, and the log would hold null in their place."""
    world = ServiceWorld.of([diary])
    before = world.database.digest()
    refused = world.act("paint_note", {"note_id": value, "more": None})
    assert refused.content == "Error (invalid): The arguments hold a number that is not finite."
    assert world.calls[-1].arguments == {}
    assert world.database.digest() == before
    assert "not finite" not in world.act("paint_note", {"note_id": None}).content
