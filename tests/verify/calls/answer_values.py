"""Values for tests of answers: drawn, encoded as a worker encodes them, and read as the judge reads them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

import assay.verify.payload.value_codec as codec
from assay.verify.calls.answers import read_answers
from assay.verify.payload.plain_values import write_plain

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.complex_numbers()
)
DECIMALS = st.decimals(allow_nan=False) | st.just(Decimal("NaN"))
STANDARD = (DECIMALS | st.fractions() | st.dates() | st.times() | st.datetimes() | st.timedeltas() | st.uuids()).filter(
    lambda value: write_plain(value) is not None
)
TAGS = st.sampled_from(["f", "c", "v", "i", "S", "d", "l", "x", "I"])
"""Texts that are tags of the encoding, too: a key that is one must not be read as one."""


def hashable(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(scalars, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=6)


def values_of(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = hashable(scalars)
    return st.recursive(
        keys,
        lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(keys, inner) | st.sets(keys),
        max_leaves=12,
    )


VALUES = values_of(SCALARS)


def encoded(value: Any) -> Any:
    return codec.Encoder(lambda _: None, lambda _: None).encode(value)


def read(*values: Any) -> Any:
    line = json.dumps([7, [[0, "ok", *[encoded(value) for value in values]]]], allow_nan=False)
    return read_answers(line.encode() + b'\n"end"\n').get(7)
