"""Dropped outputs: which were cited later by an attempt that passed."""

from __future__ import annotations

import msgspec
import pytest

from assay.analysis.dropped_outputs import cited_outputs, count_dropped, dropped_outputs
from assay.records import Evidence, Trajectory, digest_bytes
from tests.analysis.trajectories import acted, trajectory

pytestmark = pytest.mark.quick
TEXTS = ("the code is alpha7", "the code is beta8", "nothing new: alpha7")


def read_three(use: str) -> Trajectory:
    """An attempt that reads three notes and then uses a code."""
    return trajectory([*(acted(n, "read", text) for n, text in enumerate(TEXTS)), acted(3, "use", None, code=use)])


def test_an_output_is_cited_by_a_later_argument_with_a_word_that_it_was_the_first_to_show() -> None:
    cited = cited_outputs(read_three("alpha7"))
    assert [cited[digest_bytes(text.encode())] for text in TEXTS] == [True, False, False]
    assert not any(cited_outputs(read_three("alpha7"), "the code may be alpha7").values())


def test_dropped_outputs_are_known_by_passing_attempts_that_saw_them() -> None:
    data = {"calls": ["c0", "c1", 7, "c9"], "policy": "drop"}
    cut = msgspec.structs.replace(
        read_three("x"), evidence=(Evidence("context-1", "gateway", "context_dropped", data),)
    )
    assert len(dropped_outputs(cut)) == 2
    assert count_dropped(cut, []) == (2, 0, 0)
    assert count_dropped(cut, [cited_outputs(read_three("alpha7"))]) == (2, 2, 1)
    assert count_dropped(cut, [cited_outputs(read_three(one)) for one in ("alpha7", "beta8")]) == (2, 2, 2)
    odd = msgspec.structs.replace(cut, evidence=(Evidence("e", "gateway", "context_dropped", {"calls": "c0"}),))
    assert dropped_outputs(odd) == []
