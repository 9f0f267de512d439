"""Two versions are compared by the calls of the tests, recorded in a real sandbox."""

from __future__ import annotations

from typing import Any

import pytest

from assay.verify.calls import CallComparer, RecordRequest

from .conftest import FILE, RIGHT, TESTS, core, solution

PATH, TEST = "/workspace/depot/core.py", f"/workspace/{FILE}"


async def comparer_of(depot: Any) -> CallComparer:
    bench = depot.bench
    workspace = await bench.backend.open(bench.spec())
    try:
        await workspace.exec(solution())
        await workspace.write(TEST, TESTS.encode())
        state = await workspace.snapshot()
    finally:
        await workspace.close()
    names = {PATH: ("median", "merged", "largest", "clear")}
    request = RecordRequest({TEST: (TEST,)}, names, ("depot.",), ("depot",), ("/workspace",), "/workspace")
    return CallComparer(bench.backend, bench.spec(), state, request, seed=b"seed")


@pytest.mark.long
async def test_a_wrong_version_has_a_witness_and_the_same_in_other_words_has_none(depot: Any) -> None:
    comparer = await comparer_of(depot)
    wrong = await comparer.compare({PATH: core(**{**RIGHT, "clear": "numbers.sort()"}).encode()})
    assert wrong.looked > 20
    assert wrong.witness.startswith("clear(")
    other = RIGHT["largest"].replace("yield from ", "return iter(") + ")"
    same = await comparer.compare({PATH: core(**{**RIGHT, "largest": other}).encode()})
    assert (same.looked, same.witness) == (wrong.looked, "")
