from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import ProviderError
from assay.gateway.backends._reply import read_completion, read_error
from assay.records import canonical_bytes

pytestmark = pytest.mark.quick
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9)
)
JSON = st.recursive(SCALARS, lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=5), x, max_size=3))
FIELDS = {
    "message": st.fixed_dictionaries({}, optional={"content": JSON, "tool_calls": JSON, "role": JSON}) | JSON,
    "finish_reason": JSON,
    "logprobs": st.fixed_dictionaries({}, optional={"content": JSON}) | JSON,
    "token_ids": JSON,
}
REPLIES = st.fixed_dictionaries(
    {"choices": st.lists(st.fixed_dictionaries({}, optional=FIELDS), max_size=2) | JSON},
    optional={"usage": JSON, "model": JSON, "prompt_token_ids": JSON, "error": JSON},
)


@pytest.mark.long
@settings(max_examples=150)
@given(REPLIES | JSON)
def test_any_json_is_read_or_refused(reply: Any) -> None:
    with contextlib.suppress(ProviderError):
        found = read_completion(json.dumps(reply).encode(), "server")
        assert canonical_bytes(found.raw)
        assert isinstance(found.message, dict)


@settings(max_examples=100)
@given(st.binary(max_size=50) | JSON.map(lambda value: json.dumps({"error": value}).encode()), st.integers(300, 599))
def test_any_error_is_read(body: bytes, status: int) -> None:
    error = read_error(status, body)
    assert len(error.text) <= 500
    assert len(error.code) <= 100


@pytest.mark.parametrize("deep", [b'{"error":{"message":' + b"[" * 900 + b"]" * 900 + b"}}", b"[" * 100_000])
def test_a_deep_error_is_read(deep: bytes) -> None:
    assert len(read_error(500, deep).text) <= 500
