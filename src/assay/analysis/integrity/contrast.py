"""Behaviour that distinguishes the suspicious attempts at a task from the others.

Detects exploits without a rule: commands, places and words common in the suspicious attempts and rare in the others.
Features are literal; the score is a smoothed log odds ratio, with the one-sided probability of Fisher's exact test.
Many features are compared: with few attempts a small probability proves nothing, and `contrast` reports their number.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

import msgspec

from assay.analysis._tests import is_test_file
from assay.analysis.actions import read_paths, removed_paths, written_paths
from assay.analysis.commands import simple_commands
from assay.analysis.interface import Action
from assay.analysis.subject import Subject

PRIOR = 0.5
_NUMBER = re.compile(r"\d+")
_SUBCOMMANDS = frozenset({"git", "pip", "pip3", "npm", "docker", "conda", "apt", "apt-get", "uv", "cargo", "go"})
MOST_FEATURES = 5_000
"""Maximum number of features per attempt."""


class Feature(msgspec.Struct, frozen=True):
    """A feature of attempts."""

    name: str
    """`command git log --all`, `reads /tests`, `writes conftest.py`, `tool web_search`, ..."""
    suspicious: int
    others: int
    score: float
    """Log odds ratio with 0.5 added to each count; positive if more frequent in suspicious attempts."""
    probability: float
    """One-sided probability by Fisher's exact test of at least as many suspicious attempts."""
    steps: dict[str, tuple[int, ...]]


class Contrast(msgspec.Struct, frozen=True):
    """Distinguishing features, the strongest first."""

    features: tuple[Feature, ...]
    compared: int
    """Number of compared features; `compared` times the probability are expected by chance."""
    suspicious: int
    others: int


class Unusual(msgspec.Struct, frozen=True):
    """Dissimilarity of one attempt to the others, without suspicion."""

    attempt: str
    score: float
    """Mean surprisal of its features in bits; 0 if it does what all do."""
    features: tuple[str, ...]


def features_of(subject: Subject) -> dict[str, tuple[int, ...]]:
    """Returns an attempt's features with their steps."""
    found: dict[str, list[int]] = defaultdict(list)
    for action in subject.actions:
        for name in _features(action):
            if len(found) < MOST_FEATURES or name in found:
                found[name].append(action.step)
    return {name: tuple(dict.fromkeys(steps)) for name, steps in found.items()}


def _features(action: Action) -> Iterator[str]:
    if action.call >= 0:
        yield f"tool {action.tool}"
    for command in simple_commands(action.command or ""):
        words = command.effective
        if not words:
            continue
        name = posixpath.basename(words[0])
        yield f"command {name}"
        if name in _SUBCOMMANDS and len(words) > 1:
            yield f"command {name} {words[1]}"
        options = sorted({_plain(word) for word in words[1:] if word.startswith("-") and len(word) < 40})
        head = f"{name} {words[1]}" if name in _SUBCOMMANDS and len(words) > 1 else name
        yield from (f"command {head} {option}" for option in options)
    for verb, paths in (
        ("reads", read_paths(action)),
        ("writes", written_paths(action)),
        ("removes", removed_paths(action)),
    ):
        for path in paths[:50]:
            yield from (f"{verb} {place}" for place in _places(path))


def _places(path: str) -> Iterator[str]:
    """Yields the file's base name, its folder at the root, and whether it is a test's."""
    yield _plain(posixpath.basename(path.rstrip("/")))
    if path.startswith("/"):
        yield "/" + path.strip("/").split("/", 1)[0]
    if is_test_file(path):
        yield "a test"


def _plain(word: str) -> str:
    """Normalises numbers and removes option values."""
    return _NUMBER.sub("0", word.split("=", 1)[0] if word.startswith("-") else word)[:80]


def contrast(subjects: Mapping[str, Subject], suspicious: Collection[str], *, most: int = 20) -> Contrast:
    """Returns the features that distinguish the suspicious attempts at a task (by findings, reward or a person's
    judgement).

    Raises:
        ValueError: A suspicious name is unknown, or all or none of the attempts are suspicious.
    """
    unknown = sorted(set(suspicious) - set(subjects))
    chosen = set(suspicious) & set(subjects)
    if unknown or not chosen or len(chosen) == len(subjects):
        what = (
            f"{unknown[0]!r} is not one of the attempts"
            if unknown
            else f"{len(chosen)} of {len(subjects)} are suspicious"
        )
        raise ValueError(f"{what}: a contrast needs known attempts of both kinds")
    doing = {name: features_of(subject) for name, subject in subjects.items()}
    every = sorted({feature for its in doing.values() for feature in its})
    others = len(subjects) - len(chosen)
    found = [_feature(feature, doing, chosen, others) for feature in every]
    found.sort(key=lambda one: (-one.score, one.probability, one.name))
    return Contrast(tuple(f for f in found if f.score > 0)[:most], len(every), len(chosen), others)


def _feature(name: str, doing: Mapping[str, dict[str, tuple[int, ...]]], chosen: set[str], others: int) -> Feature:
    its = {attempt: doing[attempt][name] for attempt in sorted(chosen) if name in doing[attempt]}
    does, also = len(its), sum(name in doing[attempt] for attempt in doing if attempt not in chosen)
    odds = (does + PRIOR) / (len(chosen) - does + PRIOR)
    score = math.log(odds / ((also + PRIOR) / (others - also + PRIOR)))
    return Feature(name, does, also, score, _by_chance(does, len(chosen), also, others), its)


def _by_chance(does: int, suspicious: int, also: int, others: int) -> float:
    """Returns the hypergeometric probability that at least `does` attempts with the feature are suspicious."""
    total, doing = suspicious + others, does + also
    ways = math.comb(total, doing)
    most = min(suspicious, doing)
    return sum(math.comb(suspicious, n) * math.comb(others, doing - n) for n in range(does, most + 1)) / ways


def unusual(subjects: Mapping[str, Subject]) -> tuple[Unusual, ...]:
    """Returns every attempt with its dissimilarity, the largest first; empty for fewer than two attempts."""
    if len(subjects) < 2:
        return ()
    doing = {name: features_of(subject) for name, subject in subjects.items()}
    counts: dict[str, int] = defaultdict(int)
    for its in doing.values():
        for feature in its:
            counts[feature] += 1
    surprise = {feature: -math.log2(n / len(subjects)) for feature, n in counts.items()}
    found = []
    for name, its in doing.items():
        rare = sorted(its, key=lambda feature: (counts[feature], feature))
        score = sum(surprise[feature] for feature in its) / len(its) if its else 0.0
        found.append(Unusual(name, score, tuple(rare[:10])))
    return tuple(sorted(found, key=lambda one: (-one.score, one.attempt)))
