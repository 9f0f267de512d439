"""Attempts side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import UserError
from assay.records import AttemptEnded, Body, Evidence, EvidenceAdded, Verdict, VerdictAdded, canonical_bytes
from assay.store import RunStore, seal
from assay.viewer.compare import _align_walks, compare_attempts
from assay.viewer.views import make_view
from tests.viewer.chains_made import shell, started, view_names

pytestmark = pytest.mark.quick
CHAINS = ("t@0.0", "t@1.0", "t@2.0")
WAYS = (("ls", "cat a.py", "pytest -q"), ("ls", "pytest -q"), ("rm a.py", "pytest -q", "ls"))


def attempt(store: RunStore, number: int, commands: Sequence[str]) -> list[Body]:
    digest = store.blobs.put(f"content {number // 2}\n".encode())
    manifest = [{"path": "a.py", "kind": "changed", "digest": digest}, {"path": "b.py", "kind": "added"}]
    data = {"digest": "d", "changes": 2, "manifest": store.blobs.put(canonical_bytes(manifest))}
    return [
        started(number, "r"),
        *(shell(n, command, "1 failed" if number else "ok", state=n) for n, command in enumerate(commands)),
        EvidenceAdded(Evidence("e", "state", "snapshot", data)),
        VerdictAdded(Verdict("tests", "outcome", "fail" if number else "pass", None, "r", ("e",))),
        AttemptEnded("done", at=1009.0),
    ]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with RunStore.create(tmp_path, "r", {}) as store:
        for number, commands in enumerate(WAYS):
            store.append(CHAINS[number], attempt(store, number, commands))
    return tmp_path


def test_rows_keep_the_order_of_every_attempt(root: Path) -> None:
    rows = compare_attempts(root, "r", CHAINS)["rows"]
    for number, commands in enumerate(WAYS):
        assert [row[number][0] for row in rows if row[number]] == list(range(len(commands)))


def test_equal_acts_with_equal_ends_share_a_row(root: Path) -> None:
    found = compare_attempts(root, "r", CHAINS)
    told = [[found["classes"][cell[3]]["told"] if cell else None for cell in row] for row in found["rows"]]
    assert ["ls", "ls", None] in told or ["ls", "ls", "ls"] in told
    assert all(len({words for words in row if words}) == 1 for row in told)


def test_cells_lead_to_the_steps_and_their_states(root: Path) -> None:
    found = compare_attempts(root, "r", CHAINS)
    act, step, line, _, state, failed = found["rows"][0][0]
    assert (act, step, line, failed) == (0, 0, 1, 0)
    assert found["states"][state] == "blake3:" + "0" * 64


def test_the_tree_says_where_outcomes_part(root: Path) -> None:
    found = compare_attempts(root, "r", CHAINS)
    assert found["tree"]["attempts"][0] == 3
    assert [len(walk) for walk in found["tree"]["walks"]] == [3, 2, 3]
    assert (found["tree"]["passed"][0], found["tree"]["failed"][0]) == (1, 2)


def test_an_attempt_leaves_the_passing_ones_at_its_first_other_act(root: Path) -> None:
    assert [one["divergence"] for one in compare_attempts(root, "r", CHAINS)["attempts"]] == [None, [1, 1], [0, 0]]
    assert [one["divergence"] for one in compare_attempts(root, "r", CHAINS[1:])["attempts"]] == [None, None]


def test_files_that_differ_at_the_end_are_listed(root: Path) -> None:
    files = compare_attempts(root, "r", CHAINS)["files"]
    assert [file["path"] for file in files["paths"]] == ["a.py"]
    assert (files["known"], files["same"]) == ([True, True, True], 1)
    digests = [end["digest"] for end in files["paths"][0]["ends"]]
    assert digests[0] == digests[1] != digests[2]


def test_a_sealed_run_compares_the_same(root: Path) -> None:
    before = compare_attempts(root, "r", CHAINS)
    seal(root, "r")
    assert compare_attempts(root, "r", CHAINS) == before


@pytest.mark.parametrize("chains", [(), ("t@0.0",), ("t@0.0", "t@0.0"), ("t@0.0", "none"), tuple(map(str, range(13)))])
def test_what_cannot_be_compared_is_refused(root: Path, chains: tuple[str, ...]) -> None:
    with pytest.raises(UserError):
        compare_attempts(root, "r", chains)


def test_an_export_compares_the_attempts_of_a_task(root: Path) -> None:
    (name,) = [name for name in view_names(root, "r") if "/compare/" in name]
    assert [one["number"] for one in json.loads(make_view(root, name) or b"")["attempts"]] == [0, 1, 2]


@given(st.lists(st.lists(st.integers(0, 4), max_size=12), min_size=2, max_size=4))
def test_an_alignment_loses_nothing_and_joins_only_equals(walks: list[list[int]]) -> None:
    rows = _align_walks(walks)
    for number, walk in enumerate(walks):
        assert [row[number] for row in rows if row[number] >= 0] == list(range(len(walk)))
    for row in rows:
        assert len({walks[n][at] for n, at in enumerate(row) if at >= 0}) == 1
