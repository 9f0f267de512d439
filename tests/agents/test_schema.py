from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.agents._schema import validate

pytestmark = pytest.mark.quick
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, object()),
        ({"type": "integer"}, 3),
        ({"type": "integer"}, 3.0),
        ({"type": "number"}, 3),
        ({"type": ["string", "null"]}, None),
        ({"type": "made-up"}, 3),
        ({"enum": [1, "a"]}, "a"),
        ({"const": 4}, 4),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 2}, ["a", "b"]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 3),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, 3),
        ({"minimum": 1, "maximum": 3}, 3),
        ({"minLength": 1, "maxLength": 3}, "abc"),
    ],
)
def test_what_fits(schema: dict[str, Any], value: Any) -> None:
    assert validate(schema, value) is None


@pytest.mark.parametrize(
    ("schema", "value", "says"),
    [
        ({"type": "integer"}, True, "expected integer, got boolean"),
        ({"type": "integer"}, 3.5, "expected integer, got number"),
        ({"type": "number"}, False, "expected number, got boolean"),
        ({"type": ["string", "null"]}, 3, "expected string or null, got integer"),
        ({"type": "object"}, None, "expected object, got null"),
        ({"enum": ["a", "b"]}, "c", "expected one of 'a', 'b'"),
        ({"const": 4}, 5, "expected 4"),
        ({"items": {"type": "string"}}, ["a", 3], "arguments[1]: expected string, got integer"),
        (
            {"properties": {"a": {"properties": {"b": {"type": "null"}}}}},
            {"a": {"b": 1}},
            "arguments.a.b: expected null",
        ),
        ({"required": ["a"]}, {}, "'a' is missing"),
        ({"additionalProperties": False}, {"a": 1}, "unknown 'a'; known: none"),
        ({"additionalProperties": {"type": "integer"}}, {"a": "x"}, "arguments.a: expected integer"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, [], "fits none of the 2 allowed forms"),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, 3, "fits more than one"),
        ({"allOf": [{"type": "number"}, {"minimum": 3}]}, 2, "must be at least 3"),
        ({"maximum": 3}, 4, "must be at most 3"),
        ({"minLength": 1}, "", "must be at least as long as 1"),
        ({"maxItems": 1}, [1, 2], "must be at most as many items as 1"),
    ],
)
def test_what_does_not_fit(schema: dict[str, Any], value: Any, says: str) -> None:
    assert says in (validate(schema, value) or "fits")


@given(value=JSON)
def test_any_value_is_judged_without_an_exception(value: Any) -> None:
    schema = {
        "type": ["object", "array", "string", "null", "number", "boolean"],
        "properties": {"a": {"type": "integer", "minimum": 0}},
        "items": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "null"}}]},
        "additionalProperties": {"enum": [1, None]},
    }
    assert validate(schema, value) is None or isinstance(validate(schema, value), str)


def test_a_deep_value_is_no_deeper_than_its_schema() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert validate({"type": "object", "properties": {"a": {"type": "string"}}}, {"a": deep}) is not None
