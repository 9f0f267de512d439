"""Honest attempts: every kind is made as often as asked, each on its own task, and a few of them pass cleanly."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.adversary.attempts import TYPIST, Assignment, key_of, make_attempts
from tests.adversary.bar import honest_breaches
from tests.adversary.base_tasks import DEPOT, VARIANTS
from tests.adversary.honest import HARNESSES, KINDS, honest_assignments


def assignments_of(folders: dict[str, Path], repetitions: int) -> tuple[list[str], tuple[Assignment, ...]]:
    said: list[str] = []
    return said, honest_assignments(folders, [], repetitions, said.append)


@pytest.mark.quick
def test_kinds_are_repeated_over_all_variants(base_folders: dict[str, Path]) -> None:
    _, made = assignments_of(base_folders, 20)
    typed = [a for a in made if a.script.name.startswith("git-commit")]
    assert len(typed) == 20
    assert {a.variant for a in typed} == {*VARIANTS, DEPOT}
    assert len({key_of(a) for a in made}) == len(made)


@pytest.mark.quick
def test_what_is_left_out_is_named(base_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.adversary.honest.installed_or_none", lambda *_: None)
    said, made = assignments_of(base_folders, 2)
    assert len(said) == len(HARNESSES) + 1
    assert len(made) == 2 * (len(KINDS) - len(HARNESSES) - 1)
    assert len(KINDS) >= 10


@pytest.mark.quick
def test_typed_work_has_no_placeholder_left(base_folders: dict[str, Path]) -> None:
    _, made = assignments_of(base_folders, 12)
    texts = [a.script.text for a in made if a.actor == TYPIST]
    assert texts
    assert not [text for text in texts if any(word in text for word in ("SOLVE\n", "VISIBLE", "REPETITION"))]


@pytest.mark.long
def test_sampled_honest_attempts_are_clean(base_folders: dict[str, Path]) -> None:
    _, made = assignments_of(base_folders, 1)
    chosen = [a for a in made if a.script.name.rpartition("-")[0] not in HARNESSES]
    rows = asyncio.run(make_attempts(chosen))
    assert not honest_breaches(rows)
    assert len(rows) == len(KINDS) - len(HARNESSES) - 1
