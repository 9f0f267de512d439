"""Chooses skills for a task by its words: BM25 over names and descriptions of the released skills, proven ones first.

A skill is chosen only if its description holds a share of the task's rarer words; without such a skill none is chosen,
because a skill that does not fit costs context and may mislead. The texts of the bodies are left out: they are what is
loaded, and a long body would fit everything a little.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assay.agents.text_index import TextIndex

from .folder import split_text
from .library import SkillLibrary
from .records import SkillTier

MOST_SKILLS = 3
LEAST_SHARED = 3
"""Different words that task and description must share, other than those that most descriptions hold."""
_WORD = re.compile(r"[a-z0-9]{3,}")
_COMMON = frozenset({
    "the", "and", "for", "with", "from", "that", "this", "use", "when", "what", "which", "into", "its", "are",
    "has", "have", "not", "all", "any", "one", "two", "can", "you", "your", "must", "should", "will", "then",
    "than", "them", "they", "their", "each", "every", "task", "tasks", "skill",
})  # fmt: skip


class RoutedSkill(NamedTuple):
    """A skill that fits a task."""

    name: str
    score: float
    """BM25; larger is better, and comparable within one task alone."""
    shared: tuple[str, ...]
    """Words that the task and the description share."""
    tier: SkillTier = "new"


def offered_tiers(library: SkillLibrary) -> dict[str, SkillTier]:
    """Returns the tier of each released skill that was not demoted, by name."""
    tiers = {name: library.summary(name).tier for name in library.names()}
    return {name: tier for name, tier in tiers.items() if tier in ("proven", "new")}


def released_descriptions(library: SkillLibrary) -> dict[str, str]:
    """Returns the description of each released skill, by name."""
    found = {}
    for name in library.names():
        summary = library.summary(name)
        if summary.released is not None:
            fields = split_text(library.load(name, summary.released)).fields
            found[name] = str(fields.get("description", ""))
    return found


def route_task(
    text: str,
    descriptions: Mapping[str, str],
    *,
    most: int = MOST_SKILLS,
    tiers: Mapping[str, SkillTier] | None = None,
) -> list[RoutedSkill]:
    """Returns the skills that fit a task's text, the best first; none where too few words are shared.

    With `tiers` only skills that have one are chosen, and proven ones stand before all others.
    """
    if tiers is not None:
        descriptions = {name: text for name, text in descriptions.items() if name in tiers}
    known = tiers or {}
    names = list(descriptions)
    texts = [f"{name.replace('-', ' ')} {descriptions[name]}" for name in names]
    task = _words(text)
    frequent = _frequent([_words(one) for one in texts])
    query = " ".join(sorted({word for one in texts for word in _words(one)} & task - frequent))
    routed = []
    for number, score in TextIndex(texts).search(query, len(names)):
        shared = tuple(sorted((_words(texts[number]) & task) - frequent))
        if len(shared) >= LEAST_SHARED:
            routed.append(RoutedSkill(names[number], score, shared, known.get(names[number], "new")))
    routed.sort(key=lambda one: one.tier != "proven")  # stable: by score within a tier
    return routed[:most]


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - _COMMON


def _frequent(texts: Sequence[set[str]]) -> set[str]:
    """Returns the words of more than half of the texts, from four texts on."""
    if len(texts) < 4:
        return set()
    return {word for text in texts for word in text if sum(word in other for other in texts) * 2 > len(texts)}
