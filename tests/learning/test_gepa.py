"""Search of texts by GEPA: ordinary runs, verdicts and evidence as feedback, the same result after an interruption."""

from __future__ import annotations

import builtins
import os
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.errors import UserError
from assay.learning.evolution.evolve import EvolveReport, evolve
from assay.learning.evolution.recipe import EvolveRecipe
from assay.settings import Settings
from assay.store import list_runs
from tests.optional import require_packages

require_packages("gepa")
TEXTS = ["wait", "walk north", "look around", "follow the advice"]
RECIPE: dict[str, Any] = {
    "name": "texts",
    "agent": f"{__file__}:Obedient",
    "base": {"plan": TEXTS[0], "mood": "calm"},
    "space": {"plan": TEXTS, "mood": ["calm", "eager"]},
    "search": {"tasks": ["family:grid,n=6,size=4,seed=1"], "method": "gepa", "calls": 90},
    "gate": {"tasks": ["family:grid,n=30,size=4,seed=2"]},
}
SHARES = dict(zip(TEXTS, (0.1, 0.4, 0.3, 1.0), strict=True))


class Obedient:
    """Solves a world with a probability that its text decides; its mood changes nothing."""

    name = "obedient"
    needs_model = False
    takes_advice = True

    def __init__(self, plan: str, mood: str) -> None:
        self._plan = plan

    async def run(self, attempt: Any) -> None:
        import random

        if random.Random(f"{attempt.task.id}/{self._plan}").random() < SHARES.get(self._plan, 0.0):
            while attempt.ended is None:
                await attempt.act([attempt.tools.advice()])
        else:
            attempt.finish("it did not work")


class Interrupted(Exception):
    """Ends a search in the middle."""


def recipe(**search: Any) -> EvolveRecipe:
    return msgspec.convert({**RECIPE, "search": {**RECIPE["search"], **search}}, EvolveRecipe)


def settings_in(folder: Path) -> Settings:
    return Settings(folder / "cache", folder / "store")


def searched_in(settings: Settings) -> set[str]:
    """Returns the runs of the search; those of a gate are named by the use of its holdout, which has a time."""
    return {run for run in list_runs(settings.store) if "-gate-" not in run}


def plain(found: EvolveReport) -> dict[str, Any]:
    return {**msgspec.to_builtins(found), "ledger": ""}


async def test_listed_texts_are_tried_the_winner_is_gated_and_an_interrupted_search_ends_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a pickle was read")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    whole = await evolve(recipe(), settings_in(tmp_path / "a"))
    assert (whole.winner["plan"], whole.accepted) == ("follow the advice", True)
    assert whole.held_out is not None
    assert whole.held_out[1] == 1.0
    assert not [path for path in tmp_path.rglob("*") if path.suffix in {".bin", ".pkl", ".pickle"}]

    other, said = settings_in(tmp_path / "b"), list[str]()

    def stop(text: str) -> None:
        said.append(text)
        if len(said) in (2, 7):
            raise Interrupted

    for _ in range(2):
        with pytest.raises(Interrupted):
            await evolve(recipe(), other, stop)
    assert plain(await evolve(recipe(), other)) == plain(whole)
    assert searched_in(other) == searched_in(settings_in(tmp_path / "a"))


def propose(request: Any) -> str:
    """Writes another text each time that it is asked, and keeps the prompt."""
    place = Path(os.environ["PROMPTS_OF_THE_TEST"])
    asked = len(list(place.iterdir()))
    (place / str(asked)).write_text(request.messages[-1]["content"])
    return f"```\n{TEXTS[min(asked + 1, 3)]}\n```"


async def test_a_model_sees_verdicts_and_evidence_and_is_asked_once_for_each_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    monkeypatch.setenv("PROMPTS_OF_THE_TEST", str(prompts))
    by_model = msgspec.convert(
        {
            **RECIPE,
            "base": {"plan": TEXTS[0], "mood": "calm"},
            "space": {"plan": [TEXTS[0]]},
            "search": {**RECIPE["search"], "proposer": f"scripted:{__file__}:propose"},
        },
        EvolveRecipe,
    )
    settings = settings_in(tmp_path)
    found = await evolve(by_model, settings)
    assert found.winner["plan"] == "follow the advice"
    first = (prompts / "0").read_text()
    assert "solved: fail" in first
    assert "it did not work" in first or "facts" in first
    assert TEXTS[0] in first
    asked = len(list(prompts.iterdir()))
    again = await evolve(by_model, settings)
    assert (plain(again), len(list(prompts.iterdir()))) == (plain(found), asked)


@pytest.mark.quick
def test_a_search_of_texts_needs_texts() -> None:
    for change in ({"base": {"mood": "calm"}}, {"space": {"plan": ["a", 3]}}):
        with pytest.raises((UserError, msgspec.ValidationError), match="changes texts alone"):
            msgspec.convert({**RECIPE, **change}, EvolveRecipe)


async def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *args: Any, **named: Any) -> Any:
        if name == "gepa":
            raise ImportError("no gepa here")
        return real(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(UserError, match="install assay\\[gepa\\]"):
        await evolve(recipe(), settings_in(tmp_path))
