"""Events that come with their bytes are stored as those that do not."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import StoreError
from assay.records import Body, Evidence, EvidenceAdded, Observation, Step, StepAdded, ToolCall, canonical_bytes
from assay.store.chain import decode_raw
from assay.store.encoding import EncodedBody, encode

pytestmark = pytest.mark.quick

TIMES: st.SearchStrategy[Any] = st.none() | st.integers(0, 9) | st.floats(0, 1e12)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text(max_size=4), PLAIN, max_size=3)


def step_with(arguments: dict[str, Any], started: Any = None, duration: Any = None) -> Body:
    seen = (Observation("seen", "c", duration_s=duration),)
    return StepAdded(Step(0, "agent", "message", None, (ToolCall("c", "add", "", arguments),), seen, started=started))


@given(ARGUMENTS, TIMES, TIMES)
def test_a_step_is_stored_in_bytes_that_encode_to_themselves(arguments: dict[str, Any], started: Any, duration: Any):
    body = step_with(arguments, started, duration)
    found = encode(body, "c")
    assert canonical_bytes(decode_raw("c", 0, found.raw)) == found.raw
    assert canonical_bytes(found.body) == found.raw
    assert found.body == decode_raw("c", 0, found.raw)
    assert encode(EncodedBody(canonical_bytes(body), body), "c") == found


@given(ARGUMENTS, TIMES)
def test_evidence_is_stored_in_bytes_that_encode_to_themselves(data: dict[str, Any], at: Any):
    body = EvidenceAdded(Evidence("e1", "state", "facts", data, at=at))
    found = encode(EncodedBody(canonical_bytes(body), body), "c")
    assert canonical_bytes(decode_raw("c", 0, found.raw)) == found.raw
    assert found == encode(body, "c")


def test_what_changes_after_it_was_encoded_is_stored_as_it_was():
    arguments: dict[str, Any] = {"by": 1}
    body = step_with(arguments)
    given_bytes = EncodedBody(canonical_bytes(body), body)
    arguments["by"] = 2
    assert encode(given_bytes, "c") == EncodedBody(given_bytes.raw, step_with({"by": 1}))


def test_a_number_that_became_null_is_not_stored_as_null():
    arguments: dict[str, Any] = {"by": math.nan}
    body = step_with(arguments)
    given_bytes = EncodedBody(canonical_bytes(body), body)
    with pytest.raises(StoreError, match="only finite numbers"):
        encode(given_bytes, "c")
    arguments["by"] = 2.5
    assert encode(given_bytes, "c") == encode(step_with({"by": 2.5}), "c")
