"""Names of removed tests are found in long records as in short ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.analysis.integrity import tests_changed

pytestmark = pytest.mark.quick
TEXTS = st.text(alphabet="ab._-é\n /", max_size=12)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(st.lists(TEXTS, max_size=8), st.text(alphabet="ab._-é ", max_size=4), st.integers(0, 8))
def test_a_name_is_found_where_a_search_finds_it(texts: list[str], name: str, index: int) -> None:
    index = min(index, len(texts))
    names: Any = tests_changed._NameIndex([(text,) for text in texts])
    assert names.is_named_before(name, index) == any(name in text for text in texts[:index])
