from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from assay.errors import StoreError
from assay.records import (
    GENESIS,
    AttemptEnded,
    AttemptStarted,
    Body,
    Evidence,
    EvidenceAdded,
    ModelCall,
    ModelCalled,
    Noted,
    Step,
    StepAdded,
    ToolCall,
    VerdictAdded,
    canonical_bytes,
)
from assay.store import Link, verify_links
from assay.store.chain import decode_event
from assay.store.encoding import encode_body
from tests.store.chains import make_event

pytestmark = pytest.mark.newest
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
json = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner), max_leaves=6
)
objects = st.dictionaries(st.text(max_size=5), json, max_size=3)
calls = st.lists(st.builds(ToolCall, parsed=st.none() | objects), max_size=2).map(tuple)
bodies = st.one_of(
    st.builds(AttemptStarted, config=objects),
    st.builds(StepAdded, st.builds(Step, tool_calls=calls)),
    st.builds(ModelCalled, st.builds(ModelCall, request=objects, response=st.none() | objects, sampling=objects)),
    st.builds(EvidenceAdded, st.builds(Evidence, data=objects)),
    st.from_type(VerdictAdded),
    st.builds(Noted, data=objects),
    st.from_type(AttemptEnded),
)


@settings(max_examples=100, deadline=None)
@given(bodies)
def test_any_body_is_refused_or_comes_back_equal(body: Body) -> None:
    try:
        raw = encode_body(body, "c")
    except StoreError:
        return
    back = decode_event(Link("c", 0, GENESIS, raw, "")).body
    assert type(back) is type(body)
    assert canonical_bytes(back) == raw


def chained(notes: Sequence[str]) -> list[Link]:
    found, previous = list[Link](), GENESIS
    for index, text in enumerate(notes):
        event = make_event("c", index, previous, Noted(text, {"at": index}))
        found.append(Link("c", index, previous, canonical_bytes(event.body), event.digest))
        previous = event.digest
    return found


chains = st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=8).map(chained)


def located(links: Sequence[Link], head: str) -> int | None:
    broken = verify_links(links, head)
    return None if broken is None else broken.at


@given(chains)
def test_an_untouched_chain_holds(links: list[Link]) -> None:
    assert located(links, links[-1].digest) is None


@given(chains, st.data())
def test_any_changed_byte_is_found_where_it_is(links: list[Link], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(links) - 1))
    body = bytearray(links[at].body)
    place, value = data.draw(st.integers(0, len(body) - 1)), data.draw(st.integers(0, 255))
    assume(body[place] != value)
    body[place] = value
    changed = [*links[:at], msgspec.structs.replace(links[at], body=bytes(body)), *links[at + 1 :]]
    assert located(changed, links[-1].digest) == at


@given(chains, st.data(), st.sampled_from(["previous", "digest", "index", "chain"]))
def test_any_changed_field_is_found_where_it_is(links: list[Link], data: st.DataObject, field: str) -> None:
    at = data.draw(st.integers(0, len(links) - 1))
    values: dict[str, Any] = {
        "previous": "blake3:" + "7" * 64,
        "digest": "blake3:" + "8" * 64,
        "index": 77,
        "chain": "d",
    }
    changed = [*links]
    changed[at] = msgspec.structs.replace(links[at], **{field: values[field]})
    found = located(changed, links[-1].digest)
    assert found == at or (field == "chain" and at == 0 and found in (0, 1))


@given(chains, st.data())
def test_a_removed_event_is_found_where_it_was(links: list[Link], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(links) - 1))
    assert located(links[:at] + links[at + 1 :], links[-1].digest) == at


@given(chains, st.data())
def test_an_inserted_event_is_found_even_when_forged_with_care(links: list[Link], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(links)))
    previous = links[at - 1].digest if at else GENESIS
    event = make_event("c", at, previous, Noted("forged"))
    forged = Link("c", at, previous, canonical_bytes(event.body), event.digest)
    assert located([*links[:at], forged, *links[at:]], links[-1].digest) == at + 1


@given(chains, st.data())
def test_swapped_events_are_found_at_the_first(links: list[Link], data: st.DataObject) -> None:
    one, other = sorted(data.draw(st.sets(st.integers(0, len(links) - 1), min_size=2, max_size=2)))
    swapped = [*links]
    swapped[one], swapped[other] = swapped[other], swapped[one]
    assert located(swapped, links[-1].digest) == one


def test_an_undecodable_event_says_which() -> None:
    with contextlib.suppress(AssertionError), pytest.raises(StoreError, match="event 3 of c is damaged"):
        decode_event(Link("c", 3, GENESIS, b'{"type":"nothing"}', ""))
