"""The list of cheats is whole, and each says what it is."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

from assay.agents import cheats
from assay.agents.cheats import CHEATS
from assay.agents.cheats.interface import BUNDLES, Cheat, CheatAgent, Knowledge
from assay.agents.interface import Agent
from assay.agents.testing import FakeAttempt
from assay.errors import UserError

pytestmark = pytest.mark.quick
FOLDER = Path(cheats.__file__).parent
FILES = sorted(p.stem for p in FOLDER.glob("*.py") if not p.name.startswith("_") and p.stem != "interface")


def test_every_cheat_of_every_module_is_in_the_list_once_and_described() -> None:
    listed: list[Cheat] = []
    for name in FILES:
        module = importlib.import_module(f"assay.agents.cheats.{name}")
        own = [value for key, value in vars(module).items() if isinstance(value, Cheat) and not key.startswith("_")]
        listed += getattr(module, "CHEATS", own)
    assert Counter(cheat.name for cheat in listed) == Counter(cheat.name for cheat in CHEATS)
    assert len(CHEATS) == len({cheat.name for cheat in CHEATS})
    assert all(cheat.about.endswith(".") for cheat in CHEATS)


def test_every_bundle_has_several_cheats_and_is_described() -> None:
    sizes = Counter(cheat.bundle for cheat in CHEATS if cheat.bundle)
    assert set(sizes) == set(BUNDLES)
    assert min(sizes.values()) > 1


def test_ten_are_quick() -> None:
    assert len([cheat for cheat in CHEATS if cheat.quick]) == 10


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda c: c.name)
def test_cheat_says_what_it_is(cheat: Cheat) -> None:
    assert re.fullmatch(r"https://\S+|none known", cheat.incident)
    assert cheat.exploits.endswith(".")
    assert cheat.closed_by
    assert isinstance(CheatAgent(cheat, Knowledge("/workspace")), Agent)


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda c: c.name)
async def test_without_a_sandbox_a_cheat_says_so(cheat: Cheat) -> None:
    if cheat.applies(Knowledge("/workspace")) is None:
        with pytest.raises(UserError):
            await cheat.act(FakeAttempt(), Knowledge("/workspace"))


def test_scripts_for_the_sandbox_need_nothing_of_ours() -> None:
    for path in (FOLDER / "payload").glob("*.py"):
        assert not re.search(r"^\s*(from|import) (assay|msgspec)", path.read_text(), re.MULTILINE)
        assert len(path.read_bytes()) < 100_000, "one argument of a command takes 128 KiB"
