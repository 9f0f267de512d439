"""A search of a sealed run reads little of it and finds what reading all of it finds."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import StoreError, UserError
from assay.records import AttemptStarted, Observation, Step, StepAdded, ToolCall
from assay.store import RunStore, audit, parquet, seal, search
from assay.store.sealed import SealedRun
from assay.store.text_index import BITS, FILE, candidate_groups, lower_text
from tests.counting import count_calls

pytestmark = pytest.mark.newest
Fill = Callable[..., None]
letters = st.text(alphabet='aAbkKiIsS\u212a\u0130\u00e9\u00c9 \u03a3\u03c2\U0001f600*?[]%_\\"\n\x01u01', max_size=7)
steps = st.lists(st.tuples(letters, letters | st.none(), st.lists(st.tuples(letters, letters), max_size=2)), max_size=6)


def recorded(root: Path, chains: list[list[tuple[str, str | None, list[tuple[str, str]]]]]) -> None:
    with RunStore.create(root, "r", {}) as store:
        for number, said in enumerate(chains):
            name = f"a@{number}"
            store.append(f"{name}.0", [AttemptStarted("r", name, "t", "d", "a", None, 1, number)])
            for index, (message, reasoning, outputs) in enumerate(said):
                calls = tuple(ToolCall("c", "shell", one, None) for one, _ in outputs)
                seen = tuple(Observation(out, "c", stderr=err) for err, out in outputs)
                store.append(f"{name}.0", [StepAdded(Step(index, "agent", message, reasoning, calls, seen))])


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(st.lists(steps, min_size=1, max_size=4), letters.filter(bool), st.booleans())
def test_sealed_and_live_runs_find_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    chains: list[list[tuple[str, str | None, list[tuple[str, str]]]]],
    text: str,
    ignore_case: bool,
) -> None:
    root = tmp_path_factory.mktemp("store")
    recorded(root, chains)
    live = search(root, text, ignore_case=ignore_case)
    seal(root, "r")
    assert sorted(map(str, search(root, text, ignore_case=ignore_case))) == sorted(map(str, live))
    shutil.rmtree(root)


@pytest.mark.parametrize("text", ["*", "?", "[x]", "%", "_", '"', "\\", "\n", "\x01", "]", "message", "\U0001f600"])
@pytest.mark.parametrize("ignore_case", [False, True])
def test_no_letter_has_a_meaning_of_its_own(tmp_path: Path, text: str, ignore_case: bool) -> None:
    recorded(tmp_path, [[(f"Before {text} after", None, [])], [("something else", None, [("x", "y")])]])
    (hit,) = search(tmp_path, text, ignore_case=ignore_case)
    assert (hit.attempt, hit.excerpt) == ("a@0", f"Before {text} after")


@pytest.mark.parametrize("text", ["ΦΩΣ", "İstanbul", "\u212a", "ẞ", "ΣΑΣ"])
def test_a_word_is_found_in_itself_where_case_is_ignored(tmp_path: Path, text: str) -> None:
    recorded(tmp_path, [[(f"Before {text}AND after", None, [])]])
    for written in (text, lower_text(text)):
        assert [hit.excerpt for hit in search(tmp_path, written, ignore_case=True)] == [f"Before {text}AND after"]
    seal(tmp_path, "r")
    for written in (text, lower_text(text)):
        assert [hit.excerpt for hit in search(tmp_path, written, ignore_case=True)] == [f"Before {text}AND after"]


@pytest.mark.long
def test_a_live_run_is_searched_without_reading_what_lacks_the_text(tmp_path: Path) -> None:
    def calls(count: int) -> int:
        root = tmp_path / str(count)
        steps = [("common text", None, [("cat notes", "some output")])] * 5
        recorded(root, [steps] * count + [[("the needle", None, [])]])
        found = count_calls(lambda: search(root, "needle"))
        assert sorted(path.name for path in (root / "runs" / "r").iterdir()) == ["lock", "manifest.json", "run.sqlite"]
        return found

    calls(1)
    assert calls(400) < 1.2 * calls(20)


@pytest.mark.parametrize("text", ["message", "shell", "call_id", "MESSAGE"])
def test_a_text_that_every_record_holds_outside_of_its_texts_costs_few_calls_a_step(tmp_path: Path, text: str) -> None:
    def calls(count: int) -> int:
        root = tmp_path / str(count)
        recorded(root, [[("common", None, [("cat notes", "some output")])] * 5] * count + [[(f"a {text}", None, [])]])
        return count_calls(lambda: [hit.excerpt for hit in search(root, text, ignore_case=text.isupper())])

    calls(1)
    assert calls(220) - calls(20) < 200 * 5 * 17  # whole steps: 20, and 36 without case


def test_a_search_finds_what_was_committed_since_the_last_one(tmp_path: Path) -> None:
    recorded(tmp_path, [[("needle", None, [])]])
    with RunStore.open(tmp_path, "r", write=True) as store:
        assert len(search(tmp_path, "needle")) == 1
        store.append("a@0.0", [StepAdded(Step(1, "agent", "needle again"))])
        assert [hit.step for hit in search(tmp_path, "needle")] == [0, 1]


def test_a_long_text_is_compared_whole(tmp_path: Path) -> None:
    start = "x" * 100_000
    recorded(tmp_path, [[(start + "a", None, []), (start + "b", None, [])]])
    assert [hit.step for hit in search(tmp_path, start + "b")] == [1]


def test_a_text_that_is_not_unicode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not valid UTF-8"):
        search(tmp_path, "a\udcff")


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sealed run with a row group a chain; each has a word of its own, and one that all have."""
    monkeypatch.setattr(parquet, "GROUP_ROWS", 1)
    recorded(tmp_path, [[(f"common text own{number:04d}", None, [])] for number in range(30)])
    seal(tmp_path, "r")
    return tmp_path


def test_only_what_may_hold_the_text_is_read(many: Path) -> None:
    sealed = SealedRun(many / "runs" / "r" / "sealed")
    last = 27  # of a@7: row groups lie in order of the chains' names
    assert list(candidate_groups(sealed, "own0007", ignore_case=False)) == [last]
    assert list(candidate_groups(sealed, "OWN0007", ignore_case=True)) == [last]
    assert list(candidate_groups(sealed, "nowhere", ignore_case=False)) == []
    assert len(candidate_groups(sealed, "common", ignore_case=False)) == 30
    assert len(candidate_groups(sealed, "own", ignore_case=False)) == 30  # too short to tell


def test_hits_come_in_order_and_the_limit_ends_the_reading(many: Path) -> None:
    assert [hit.chain for hit in search(many, "common", limit=3)] == ["a@0.0", "a@1.0", "a@10.0"]
    assert len(search(many, "common")) == 30
    assert [hit.attempt for hit in search(many, "own0007")] == ["a@7"]


def test_a_text_over_the_border_of_two_is_no_hit(tmp_path: Path) -> None:
    recorded(tmp_path, [[("one", None, []), ("two one", None, [])]])
    seal(tmp_path, "r")
    assert search(tmp_path, "etw") == ()
    assert [hit.step for hit in search(tmp_path, "one")] == [0, 1]


def test_an_older_seal_without_the_index_is_read_whole(many: Path) -> None:
    (many / "runs" / "r" / "sealed" / FILE).unlink()
    assert [hit.attempt for hit in search(many, "own0007")] == ["a@7"]


def test_an_index_that_hides_a_group_is_found_even_with_a_new_digest(many: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from assay.store.sealed import SealManifest, file_digest

    path = many / "runs" / "r" / "sealed" / FILE
    table = pq.read_table(path)
    bits = [*table["bits"].to_pylist()[:-1], bytes(BITS // 8)]
    old = file_digest(path)
    pq.write_table(table.set_column(1, table.schema.field(1), pa.array(bits, pa.binary())), path)
    seal_path = path.with_name("seal.json")
    forged = msgspec.json.decode(seal_path.read_text().replace(old, file_digest(path)), type=SealManifest)
    seal_path.write_bytes(msgspec.structs.replace(forged, digest=forged.own_digest()).written())
    assert ["searches may miss" in problem.what for problem in audit(many, "r")] == [True]


def test_a_damaged_steps_file_is_a_store_error(many: Path) -> None:
    path = many / "runs" / "r" / "sealed" / "steps.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(StoreError, match=r"steps\.parquet cannot be read"):
        search(many, "common")


@pytest.mark.parametrize("name", ["a@7", "a@7.0"])
def test_an_attempt_is_found_by_its_names(many: Path, name: str) -> None:
    with RunStore.open(many, "r") as store:
        assert store.find(name).attempt == "a@7"
        assert store.trajectory(store.find(name).chain).steps[0].message == "common text own0007"


@pytest.mark.parametrize(
    ("name", "said"),
    [("a@1", None), ("a@", "is the beginning of several"), ("zebra", "is not an attempt"), ("%", "is no")],
)
def test_beginnings_are_as_in_a_live_run(many: Path, name: str, said: str | None) -> None:
    with RunStore.open(many, "r") as store:
        if said is None:
            assert store.find(name).attempt == name
        else:
            with pytest.raises(UserError, match=said):
                store.find(name)


def test_the_part_before_a_slash_may_be_left_out(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        for name in ("x/hello@0", "y/other@0"):
            store.append(f"{name}.0", [AttemptStarted("r", name, "t", "d", "a", None, 1, 0)])
    seal(tmp_path, "r")
    with RunStore.open(tmp_path, "r") as store:
        assert store.find("hel").attempt == "x/hello@0"
        assert store.find("y/").attempt == "y/other@0"
