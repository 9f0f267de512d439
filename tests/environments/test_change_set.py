from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.environments.interface import Change
from assay.environments.workspace._change_set import MOST_IN_BLOCK, ChangeSet
from assay.environments.workspace.archive import pack_layers
from assay.environments.workspace.state import HashCache, OverlayState, StackedImage, changes_between, state_digest
from assay.records import digest_record
from tests.counting import count_calls

PATHS = st.lists(st.sampled_from(["a", "a0", "a-b", "b", "c"]), min_size=1, max_size=3).map(lambda x: "/" + "/".join(x))
EDITS = st.dictionaries(PATHS, st.none() | st.integers(0, 9), max_size=8)


def added(path: str, size: int = 1) -> Change:
    return Change(path, "added", "file", 0o644, size, f"blake3:{size:064x}")


def many(count: int) -> ChangeSet:
    return ChangeSet(added(f"/workspace/f{number:06d}") for number in range(count))


def apply_plainly(changes: dict[str, Change], edits: dict[str, Change | None], cleared: set[str]) -> dict[str, Change]:
    left = {p: c for p, c in changes.items() if not any(p.startswith(above + "/") for above in cleared)}
    left |= {path: change for path, change in edits.items() if change is not None}
    return {path: left[path] for path in sorted(left) if edits.get(path, left[path]) is not None}


@given(st.lists(st.tuples(EDITS, st.sets(PATHS, max_size=2)), max_size=6), st.sampled_from([0, 3, 700]))
def test_edits_give_the_list_and_the_digest_of_a_plain_mapping(
    rounds: list[tuple[dict[str, int | None], set[str]]], filler: int
) -> None:
    plain = {change.path: change for change in (added(f"/b/{number}") for number in range(filler))}
    shared = ChangeSet(plain.values())
    for sizes, cleared in rounds:
        edits = {path: None if size is None else added(path, size) for path, size in sizes.items()}
        plain, shared = apply_plainly(plain, edits, cleared), shared.edit(edits, cleared)
        assert shared == tuple(plain.values())
        assert state_digest("i", shared) == digest_record({"changes": shared, "image": "i"})
        assert all(shared.find(path) == plain.get(path) for path in [*sizes, *cleared])


def test_one_edit_leaves_all_but_its_own_blocks_shared() -> None:
    before = many(5_000)
    after = before.edit({"/workspace/f002500x": added("/workspace/f002500x")})
    assert 0 < len(after.unshared(before)) <= MOST_IN_BLOCK + 1
    assert len(after) == 5_001


def test_blocks_that_shrink_are_joined() -> None:
    changes = many(3_000)
    for number in range(3_000):
        if number % 30:
            path = f"/workspace/f{number:06d}"
            changes = changes.edit({path: None})
    assert len(changes) == 100
    assert len(changes._blocks) <= 3


@pytest.fixture
def layers(tmp_path: Path) -> Iterator[tuple[StackedImage, int]]:
    tops = []
    for name in ("image", "upper"):
        (tmp_path / name / "workspace").mkdir(parents=True)
        tops.append(os.open(tmp_path / name, os.O_RDONLY | os.O_DIRECTORY))
    (tmp_path / "upper" / "workspace" / "new").write_text("new")
    yield StackedImage(tops[:1], HashCache()), tops[1]
    for top in tops:
        os.close(top)


def test_a_state_costs_in_proportion_to_what_changed(layers: tuple[StackedImage, int]) -> None:
    image, upper = layers

    def calls(size: int) -> int:
        before = many(size)
        state_digest("i", before)  # a snapshot was taken before

        def next_state() -> None:
            now = OverlayState(image, before, upper).changes(settled=True)
            state_digest("i", now)
            assert [change.path for change in changes_between(image, before, now)] == ["/workspace/new"]

        return count_calls(next_state)

    calls(10)
    assert calls(20_000) < 2 * calls(1_000)


def test_a_packed_state_finds_each_content_at_once(tmp_path: Path) -> None:
    top = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    manifest = [added(f"/f{number}", number) for number in range(1_000)]
    for change in manifest:
        (tmp_path / change.path[1:]).write_text(change.path)
    packed = pack_layers([top], manifest)
    packed.read(manifest[0].digest or "")
    assert packed.read(manifest[-1].digest or "") == b"/f999"
    assert count_calls(lambda: packed.read(manifest[-1].digest or "")) < 100
    os.close(top)
