"""Placebos: a skill of equal length that says as much and means nothing, for the control arm of a trial."""

from __future__ import annotations

import random

import msgspec

from assay.agents.text_rules import parse_rules, render_rule

from .failure_rules import failure_of
from .folder import SKILL_FILE, SkillFolder, split_text


def make_placebo(skill: SkillFolder, seed: int = 0) -> SkillFolder:
    """Returns the skill with its knowledge shuffled and its length kept, deterministic in the seed.

    Factors of rules change places between rules, and mended steps between failures; in a skill without either the words
    of each line are shuffled.
    """
    text, body = skill.text, split_text(skill).body
    front, draw = text[: text.rfind(body)] if body else text, random.Random(seed)
    rules = parse_rules(body)
    has_mends = any(failure_of(line) is not None for line in body.splitlines())
    shuffled = _shuffle_factors(body, rules, draw) if len(rules) > 1 else body
    if has_mends:
        shuffled = _shuffle_mends(shuffled, draw)
    elif len(rules) < 2:
        shuffled = _shuffle_words(body, draw)
    return msgspec.structs.replace(skill, files={SKILL_FILE: (front + shuffled + "\n").encode()})


def _shuffle_factors(body: str, rules: dict[str, float], draw: random.Random) -> str:
    patterns = list(rules)
    order = draw.sample(patterns, len(patterns))
    giver = dict(zip(order, [*order[1:], order[0]], strict=True))  # one cycle: no rule keeps its factor
    lines = []
    for line in body.splitlines():
        pattern = line[2:].partition(":")[0]
        if pattern in rules and parse_rules(line):
            own = render_rule(pattern, rules[pattern])
            line = render_rule(pattern, rules[giver[pattern]]) + line[len(own) :]
        lines.append(line)
    return "\n".join(lines)


def _shuffle_mends(body: str, draw: random.Random) -> str:
    """Returns the text with the mended step of each failure at another one, in one cycle; words where all are alike."""
    lines = body.splitlines()
    heads = {number: head for number, line in enumerate(lines) if (head := failure_of(line)) is not None}
    mends = {number: lines[number].removeprefix(head) for number, head in heads.items()}
    order = draw.sample(list(heads), len(heads))
    for number, giver in zip(order, [*order[1:], *order[:1]], strict=True):
        is_alike = len(set(mends.values())) == 1
        lines[number] = _shuffle_words(lines[number], draw) if is_alike else heads[number] + mends[giver]
    return "\n".join(lines)


def _shuffle_words(body: str, draw: random.Random) -> str:
    lines = []
    for line in body.splitlines():
        words = line.split(" ")
        draw.shuffle(words)
        lines.append(" ".join(words))
    return "\n".join(lines)
