"""The pages name every method, mask, stage and option that there is."""

from __future__ import annotations

import inspect

import pytest

from assay import plugins
from assay.learning.curation.select import SELECTORS
from scripts.make_reference import ROOT

pytestmark = pytest.mark.quick
CREDIT = (ROOT / "docs" / "reference" / "credit.md").read_text(encoding="utf-8")
CURATE = (ROOT / "docs" / "how-to" / "curate.md").read_text(encoding="utf-8")


def options(function: object) -> list[str]:
    assert callable(function)
    found = [p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return [p.name for p in found if p.name != "everyone"]


@pytest.mark.parametrize("name", [n for n, e in plugins.names("advantages").items() if e.value.startswith("assay.")])
def test_a_method_of_credit_is_in_its_page(name: str) -> None:
    (line,) = [line for line in CREDIT.splitlines() if line.startswith(f"| `{name}` |")]
    assert not [option for option in options(plugins.load("advantages", name)) if f"`{option}`" not in line]


@pytest.mark.parametrize("name", SELECTORS)
def test_a_stage_is_in_its_page(name: str) -> None:
    (line,) = [line for line in CURATE.splitlines() if line.startswith(f"| `{name}` |")]
    assert not [option for option in options(SELECTORS[name]) if f"`{option}`" not in line]
