"""Near-duplicates and leakage against exact sets; diversity and mixtures against their definitions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.learning.curation.diversity import diversity
from assay.learning.curation.interface import LeakageMatch
from assay.learning.curation.mixture import mixture, quotas
from assay.learning.curation.similar import (
    MAX_TEXT,
    MIN_SHINGLES,
    LeakageIndex,
    duplicates,
    leakage,
    minhash_signature,
    shingles,
)
from assay.learning.curation.teacher import Surprisal, rank_and_surprisal, rank_surprisal_ratio, teacher
from tests.learning.curation.made import candidate

pytestmark = pytest.mark.newest

WORDS = [f"w{n}" for n in range(400)]
texts = st.lists(st.sampled_from(WORDS[:40]), max_size=60).map(" ".join)


def runs(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return {tuple(words[n : n + 5]) for n in range(max(len(words) - 4, 1))} if words else set()


@settings(max_examples=50, deadline=None)
@given(texts)
def test_shingles_are_the_distinct_runs_of_words(text: str) -> None:
    assert len(shingles(text)) == len(runs(text))


@pytest.mark.parametrize("cut", [0, 10, 60, 200, 400])
def test_signatures_estimate_the_jaccard_index(cut: int) -> None:
    a, b = " ".join(WORDS), " ".join(WORDS[cut:])
    exact = len(runs(a) & runs(b)) / len(runs(a) | runs(b))
    shared = sum(x == y for x, y in zip(minhash_signature(a), minhash_signature(b), strict=False))
    assert shared / 64 == pytest.approx(exact, abs=0.13)


def test_duplicates_leave_the_first() -> None:
    same, other = " ".join(WORDS[:100]), " ".join(WORDS[100:200])
    held = [candidate("0", text=same), candidate("1", text=other), candidate("2", "u", text=same + " end"),
            candidate("3", text=""), candidate("4", text="")]  # fmt: skip
    found = duplicates(held)
    assert [one.kept for one in found] == [True, True, False, True, True]
    assert found[2].why.startswith("similarity 0.9") or found[2].why.startswith("similarity 1.0")
    assert found[2].why.endswith("to t@0, wanted at most 0.9")
    assert all(one.kept for one in duplicates(held, within_task=True))


def test_many_attempts_are_compared_in_little_time() -> None:
    draw = np.random.default_rng(0)
    held = [candidate(str(n), text=" ".join(draw.choice(WORDS, 30))) for n in range(300)]
    assert all(one.kept for one in duplicates(held))
    assert sum(one.kept for one in duplicates(held * 5)) == 300


HELD = {
    "sum": "Add up the numbers in the file ledger.csv and write the total into sum.txt with two digits.",
    "sort": "Add up the numbers in the file ledger.csv after sorting them and drop every line that names no account.",
    "grid": "Move.",
}


def test_leakage_is_told_by_what_only_one_held_out_task_says() -> None:
    held = LeakageIndex(HELD, {"blake3:aa": "sum"})
    assert held.blind == ("grid",)
    assert held.nearest("nothing of it", "blake3:aa") == LeakageMatch("sum", "same task", 1.0)
    assert held.nearest("nothing of it at all") is None
    # The words that both share say nothing about either.
    assert held.nearest("Add up the numbers in the file ledger.csv") is None
    whole = held.nearest("I was told: " + HELD["sum"])
    assert whole == LeakageMatch("sum", "text", 1.0)


@settings(max_examples=30, deadline=None)
@given(st.lists(texts, min_size=1, max_size=4), texts)
def test_leakage_is_containment_of_distinctive_runs(held: list[str], text: str) -> None:
    named = {str(n): each for n, each in enumerate(held)}
    times = Counter(run for each in held for run in runs(each))
    best = 0.0
    for each in held:
        own = {run for run in runs(each) if times[run] == 1}
        if len(own) >= MIN_SHINGLES:
            best = max(best, len(own & runs(text)) / len(own))
    found = LeakageIndex(named, {}).nearest(text)
    assert (found.share if found else 0.0) == pytest.approx(best, abs=1e-4)


def test_a_leak_is_found_however_late_it_comes() -> None:
    held = LeakageIndex(HELD, {})
    late = "word " * 160_000 + HELD["sum"]
    assert held.nearest(late) == LeakageMatch("sum", "text", 1.0)
    across = " " * (MAX_TEXT - 40) + HELD["sum"]
    assert held.nearest(across) == LeakageMatch("sum", "text", 1.0)


def test_leakage_leaves_out_the_same_task_and_its_words() -> None:
    held = [
        candidate("0"),
        candidate("1", twin=LeakageMatch("h", "same task", 1.0)),
        candidate("2", twin=LeakageMatch("h", "text", 0.8)),
        candidate("3", twin=LeakageMatch("h", "text", 0.2)),
    ]
    found = leakage(held)
    assert [one.kept for one in found] == [True, False, False, True]
    assert found[2].why == "holds 0.80 of the distinctive words of held-out task h, wanted at most 0.5"


def test_diversity_takes_the_shortest_and_then_the_farthest() -> None:
    held = [
        candidate("0", acts=5, moves=(1, 2, 3)),
        candidate("1", acts=3, moves=(1, 2)),
        candidate("2", acts=9, moves=(7, 8, 9)),
        candidate("3", acts=4, moves=(1, 2, 7, 8)),
        candidate("4", "u", acts=1, moves=(0,)),
    ]
    assert [one.kept for one in diversity(held, most=2)] == [False, True, True, False, True]
    assert [one.kept for one in diversity(held, most=3)] == [False, True, True, True, True]
    found = diversity(held, most=9, at_least=0.45)
    assert [one.kept for one in found] == [False, True, True, True, True]
    assert found[0].why == "distance 0.33 in moves, wanted at least 0.45"
    assert found[3].why == "distance 0.50 in moves from those kept before it"


@settings(max_examples=80, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 50), min_size=1),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 5), min_size=1),
    st.one_of(st.none(), st.integers(0, 120)),
)
def test_quotas_hold_to_stock_and_proportion(
    held: dict[str, int], weights: dict[str, float], total: int | None
) -> None:
    found = quotas(held, weights, total)
    assert all(0 <= found[name] <= held[name] for name in held)
    assert total is None or sum(found.values()) <= total
    whole = sum(weights.get(name, 0) for name in held)
    for name in held:
        if whole and total is not None:
            assert found[name] <= total * weights.get(name, 0) / whole + 1


def test_a_mixture_is_drawn_in_proportion_and_the_same_in_any_order() -> None:
    held = [candidate(str(n), run="a" if n < 30 else "b") for n in range(40)]
    found = mixture(held, shares={"a": 3, "b": 1}, total=20)
    assert Counter(one.run for one, d in zip(held, found, strict=True) if d.kept) == {"a": 15, "b": 5}
    kept = {one.chain for one, d in zip(held, found, strict=True) if d.kept}
    turned = held[::-1]
    again = mixture(turned, shares={"a": 3, "b": 1}, total=20)
    assert {one.chain for one, d in zip(turned, again, strict=True) if d.kept} == kept
    assert Counter(one.run for one, d in zip(held, mixture(held), strict=True) if d.kept) == {"a": 10, "b": 10}


def test_rank_surprisal_by_hand() -> None:
    nan = float("nan")
    read = Surprisal(np.array([nan, 1, 400, 3]), np.array([nan, 0.5, 2.5, 1.0]))
    pair = rank_and_surprisal(read, np.array([True, True, True, False]))
    assert pair == ((1 + 100) / 2, 1.5)
    assert rank_surprisal_ratio([(50.5, 1.5), (9.5, 2.5)]) == 15
    assert rank_and_surprisal(read, np.array([True, False, False, False])) is None


def test_the_teacher_with_the_lowest_ratio_is_kept() -> None:
    held = [
        candidate("0", model="m", rsr=(6.0, 2.0)),
        candidate("1", model="n", rsr=(6.0, 3.0)),
        candidate("2", model="n"),
    ]
    found = teacher(held)
    assert [one.kept for one in found] == [False, True, False]
    assert found[0].why == "teacher m has RSR 3.00, place 2 of 2"
