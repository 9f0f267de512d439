"""Near-duplicate detection among attempts, and leakage of held-out tasks.

Texts are compared by hashed runs of words (shingles). Near-duplicates by MinHash (Broder 1997): the share of equal
minima among 64 hashes estimates the Jaccard index within about 0.06; bands of four rows are indexed, so that N attempts
take about N comparisons. Leakage by exact containment: the share of a held-out task's distinctive shingles found in an
attempt. Shingles that many held-out tasks share do not count, because instructions of a generated family differ in a
few words.

Not covered: paraphrase, translation, and code that was renamed throughout.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .interface import AttemptCandidate, LeakageMatch, Selection

WORDS = 5
HASHES, ROWS = 64, 4
MAX_TEXT, OVERLAP = 400_000, 1_000
"""Characters hashed at a time. Duplicates are detected by the first `MAX_TEXT`; leakage is searched in all text."""
COMMON = 0.05
MIN_SHINGLES = 4
_WORD = re.compile(r"\w+|[^\w\s]")
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_DRAW = np.random.default_rng(20_261_122)
_FACTORS = _DRAW.integers(1, 1 << 63, HASHES, dtype=np.uint64) | np.uint64(1)
_OFFSETS = _DRAW.integers(0, 1 << 63, HASHES, dtype=np.uint64)


def shingles(text: str, words: int = WORDS) -> NDArray[np.uint64]:
    """Returns sorted distinct hashes of all runs of `words` words, case-insensitive; of the whole text if it is
    shorter."""
    found = [zlib.crc32(word.encode("utf-8", "replace")) for word in _WORD.findall(text[:MAX_TEXT].lower())]
    if not found:
        return np.zeros(0, dtype=np.uint64)
    hashes = np.asarray(found, dtype=np.uint64)
    runs = np.zeros(max(len(hashes) - words + 1, 1), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for at in range(min(words, len(hashes))):
            runs = runs * _PRIME + hashes[at : at + len(runs)]
        runs ^= runs >> np.uint64(29)
        runs *= _PRIME
    return np.unique(runs)


def minhash_signature(text: str) -> tuple[int, ...]:
    """Returns the MinHash of a text: 64 numbers, or none for a text without words."""
    hashes = shingles(text)
    if not len(hashes):
        return ()
    found = []
    with np.errstate(over="ignore"):
        for factor, offset in zip(_FACTORS, _OFFSETS, strict=True):
            mixed = hashes * factor + offset
            found.append(int((mixed ^ (mixed >> np.uint64(31))).min()))
    return tuple(found)


def duplicates(
    candidates: Sequence[AttemptCandidate], *, at_most: float = 0.9, within_task: bool = False
) -> list[Selection]:
    """Leaves out what is nearly the same as one that is kept; the first stays, so put the best first."""
    if not 0 < at_most <= 1:
        raise ValueError(f"at_most must lie in (0, 1]; got {at_most}")
    bands: dict[tuple[str, int, tuple[int, ...]], list[int]] = {}
    found = []
    for index, one in enumerate(candidates):
        scope = one.task if within_task else ""
        keys = [(scope, at, one.signature[at : at + ROWS]) for at in range(0, len(one.signature), ROWS)]
        near = sorted({other for key in keys for other in bands.get(key, ())})
        best, value = _nearest(one, near, candidates)
        if best is not None and value > at_most:
            found.append(
                Selection(False, f"similarity {value:.2f} to {candidates[best].attempt}, wanted at most {at_most}")
            )
            continue
        for key in keys:
            bands.setdefault(key, []).append(index)
        nearest_text = "no other is near" if best is None else f"nearest is {candidates[best].attempt} at {value:.2f}"
        found.append(Selection(True, f"not a duplicate: {nearest_text}"))
    return found


def _nearest(
    one: AttemptCandidate, others: Sequence[int], candidates: Sequence[AttemptCandidate]
) -> tuple[int | None, float]:
    if not others:
        return None, 0.0
    hashes = np.asarray([candidates[other].signature for other in others], dtype=np.uint64)
    shares = (hashes == np.asarray(one.signature, dtype=np.uint64)).mean(axis=1)
    best = int(np.argmax(shares))
    return others[best], float(shares[best])


class LeakageIndex:
    """Index of held-out tasks: their names to their words (instruction, and solution where it is known), and digests to
    names.

    An attempt at a task with one of the digests leaks whatever it says.
    """

    def __init__(self, texts: Mapping[str, str], digests: Mapping[str, str]) -> None:
        self.digests = dict(digests)
        self.names = tuple(texts)
        hashes = [shingles(text) for text in texts.values()]
        owner = np.repeat(np.arange(len(hashes)), [len(each) for each in hashes])
        every = np.concatenate(hashes) if hashes else np.zeros(0, dtype=np.uint64)
        _, index, times = np.unique(every, return_inverse=True, return_counts=True)
        rare = times[index] <= max(1, int(COMMON * len(hashes)))
        order = np.argsort(index[rare], kind="stable")
        self._owners = owner[rare][order]
        self._keys = every[rare][order]
        self._sizes = np.bincount(owner[rare], minlength=len(hashes))
        self.blind = tuple(name for name, size in zip(self.names, self._sizes, strict=True) if size < MIN_SHINGLES)
        """Tasks with too few distinctive words to be detected."""

    def nearest(self, text: str, task_digest: str = "") -> LeakageMatch | None:
        """Returns the held-out task that an attempt is, or contains most of; or None."""
        if task_digest and task_digest in self.digests:
            return LeakageMatch(self.digests[task_digest], "same task", 1.0)
        inside = np.zeros(len(self._keys), dtype=bool)
        for start in range(0, len(text) if len(self._keys) else 0, MAX_TEXT - OVERLAP):
            inside |= np.isin(self._keys, shingles(text[start : start + MAX_TEXT]))
        if not inside.any():
            return None
        shares = np.bincount(self._owners[inside], minlength=len(self._sizes)) / np.maximum(self._sizes, 1)
        shares[self._sizes < MIN_SHINGLES] = 0.0
        best = int(np.argmax(shares))
        return LeakageMatch(self.names[best], "text", round(float(shares[best]), 4)) if shares[best] > 0 else None


def leakage(candidates: Sequence[AttemptCandidate], *, at_most: float = 0.5) -> list[Selection]:
    """Leaves out attempts at held-out tasks, and those that hold more than `at_most` of one's distinctive words."""

    def decide(one: AttemptCandidate) -> Selection:
        twin = one.twin
        if twin is None:
            return Selection(True, "nothing held out stands in it")
        if twin.how == "same task":
            return Selection(False, f"its task is held out ({twin.task})")
        return Selection(
            twin.share <= at_most,
            f"holds {twin.share:.2f} of the distinctive words of held-out task {twin.task}, wanted at most {at_most}",
        )

    return [decide(one) for one in candidates]
