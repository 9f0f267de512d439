"""What is nearly the same: near-duplicates among attempts, and attempts that hold what is held out.

Texts are compared by runs of words (shingles), hashed. Near-duplicates by MinHash (Broder 1997): of 64 hashes the share
of equal minima estimates the Jaccard index within about 0.06; rows of four are looked up by band, so that N attempts
take about N comparisons and not N squared. Leakage by containment, exactly: the share of a held-out task's distinctive
shingles that stand in an attempt. Shingles that many held-out tasks share say nothing about one of them, so they do
not count: instructions of a generated family differ in a few words.

Not covered: paraphrase, translation, and code that was renamed throughout.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .interface import Candidate, Decision, Twin

__all__ = ["HeldOut", "duplicates", "leakage", "shingles", "signature", "similarity"]

WORDS = 5
HASHES, ROWS = 64, 4
MOST_TEXT, OVERLAP = 400_000, 1_000
"""Characters looked at at once. Near-duplicates are told by the first so many; leakage is looked for in all of them."""
COMMON = 0.05
FEWEST = 4
_WORD = re.compile(r"\w+|[^\w\s]")
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_DRAW = np.random.default_rng(20_261_122)
_FACTORS = _DRAW.integers(1, 1 << 63, HASHES, dtype=np.uint64) | np.uint64(1)
_OFFSETS = _DRAW.integers(0, 1 << 63, HASHES, dtype=np.uint64)


def shingles(text: str, words: int = WORDS) -> NDArray[np.uint64]:
    """Hashes of all runs of `words` words, distinct and sorted; one of the whole where it has fewer. Case is
    ignored."""
    found = [zlib.crc32(word.encode("utf-8", "replace")) for word in _WORD.findall(text[:MOST_TEXT].lower())]
    if not found:
        return np.zeros(0, dtype=np.uint64)
    held = np.asarray(found, dtype=np.uint64)
    runs = np.zeros(max(len(held) - words + 1, 1), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for at in range(min(words, len(held))):
            runs = runs * _PRIME + held[at : at + len(runs)]
        runs ^= runs >> np.uint64(29)
        runs *= _PRIME
    return np.unique(runs)


def signature(text: str) -> tuple[int, ...]:
    """MinHash of a text: 64 numbers; none for a text without words."""
    held = shingles(text)
    if not len(held):
        return ()
    found = []
    with np.errstate(over="ignore"):
        for factor, offset in zip(_FACTORS, _OFFSETS, strict=True):
            mixed = held * factor + offset
            found.append(int((mixed ^ (mixed >> np.uint64(31))).min()))
    return tuple(found)


def similarity(a: Sequence[int], b: Sequence[int]) -> float:
    """Estimate of the Jaccard index of two texts from their signatures; 0 where either has none."""
    return sum(x == y for x, y in zip(a, b, strict=True)) / len(a) if a and b else 0.0


def duplicates(candidates: Sequence[Candidate], *, at_most: float = 0.9, within_task: bool = False) -> list[Decision]:
    """Leaves out what is nearly the same as one that is kept; the first stays, so put the best first.

    Args:
        candidates: What is decided about.
        at_most: Largest similarity to one that is kept.
        within_task: Compare attempts at one task alone.
    """
    if not 0 < at_most <= 1:
        raise ValueError(f"at_most must lie in (0, 1]; got {at_most}")
    bands: dict[tuple[str, int, tuple[int, ...]], list[int]] = {}
    found = []
    for number, one in enumerate(candidates):
        scope = one.task if within_task else ""
        keys = [(scope, at, one.signature[at : at + ROWS]) for at in range(0, len(one.signature), ROWS)]
        near = sorted({other for key in keys for other in bands.get(key, ())})
        best, value = _nearest(one, near, candidates)
        if best is not None and value > at_most:
            found.append(
                Decision(False, f"similarity {value:.2f} to {candidates[best].attempt}, wanted at most {at_most}")
            )
            continue
        for key in keys:
            bands.setdefault(key, []).append(number)
        told = "no other is near" if best is None else f"nearest is {candidates[best].attempt} at {value:.2f}"
        found.append(Decision(True, f"not a duplicate: {told}"))
    return found


def _nearest(one: Candidate, others: Sequence[int], candidates: Sequence[Candidate]) -> tuple[int | None, float]:
    if not others:
        return None, 0.0
    held = np.asarray([candidates[other].signature for other in others], dtype=np.uint64)
    shares = (held == np.asarray(one.signature, dtype=np.uint64)).mean(axis=1)
    best = int(np.argmax(shares))
    return others[best], float(shares[best])


class HeldOut:
    """Tasks that nothing may leak from.

    Args:
        texts: Name of each task to its words: the instruction, and the solution where it is known.
        digests: Digests of the tasks to their names: an attempt at one of them leaks whatever it says.
    """

    def __init__(self, texts: Mapping[str, str], digests: Mapping[str, str]) -> None:
        self.digests = dict(digests)
        self.names = tuple(texts)
        held = [shingles(text) for text in texts.values()]
        owner = np.repeat(np.arange(len(held)), [len(each) for each in held])
        every = np.concatenate(held) if held else np.zeros(0, dtype=np.uint64)
        _, number, times = np.unique(every, return_inverse=True, return_counts=True)
        rare = times[number] <= max(1, int(COMMON * len(held)))
        order = np.argsort(number[rare], kind="stable")
        self._owners = owner[rare][order]
        self._keys = every[rare][order]
        self._sizes = np.bincount(owner[rare], minlength=len(held))
        self.blind = tuple(name for name, size in zip(self.names, self._sizes, strict=True) if size < FEWEST)
        """Tasks with too few distinctive words to be recognised by them."""

    def nearest(self, text: str, task_digest: str = "") -> Twin | None:
        """The held-out task that an attempt is, or holds most of; None where it holds nothing of any."""
        if task_digest and task_digest in self.digests:
            return Twin(self.digests[task_digest], "same task", 1.0)
        inside = np.zeros(len(self._keys), dtype=bool)
        for start in range(0, len(text) if len(self._keys) else 0, MOST_TEXT - OVERLAP):
            inside |= np.isin(self._keys, shingles(text[start : start + MOST_TEXT]))
        if not inside.any():
            return None
        shares = np.bincount(self._owners[inside], minlength=len(self._sizes)) / np.maximum(self._sizes, 1)
        shares[self._sizes < FEWEST] = 0.0
        best = int(np.argmax(shares))
        return Twin(self.names[best], "text", round(float(shares[best]), 4)) if shares[best] > 0 else None


def leakage(candidates: Sequence[Candidate], *, at_most: float = 0.5) -> list[Decision]:
    """Leaves out attempts at held-out tasks, and those that hold more than `at_most` of one's distinctive words."""

    def decide(one: Candidate) -> Decision:
        twin = one.twin
        if twin is None:
            return Decision(True, "nothing held out stands in it")
        if twin.how == "same task":
            return Decision(False, f"its task is held out ({twin.task})")
        return Decision(
            twin.share <= at_most,
            f"holds {twin.share:.2f} of the distinctive words of held-out task {twin.task}, wanted at most {at_most}",
        )

    return [decide(one) for one in candidates]
