"""Documents name only what exists, and nothing of anybody's machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.make_reference import ROOT

pytestmark = pytest.mark.newest
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "llms.txt")]
DOCUMENTS = [*TOP, *sorted((ROOT / "docs").rglob("*.md"))]
PLACES = (ROOT, ROOT / "tests" / "tasks" / "harbor" / "sum-columns")
"""Where a named path may be: here, or in any task folder."""
SYNTHESISED = {"tests/separation.json", "tests/calls.json", "tests/reference", "tests/reference/", "tests/answer.json"}
"""Files of a task folder that `assay synth` writes."""
NAMED = re.compile(r"`((?:src|docs|docs_src|tests|benchmarks|scripts)/[\w./-]+)`")
MACHINE = re.compile(r"/(?:root|work|home/\w+)/|pypi\.org|pythonhosted")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_paths_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    missing = [link for link in links if link and not (path.parent / link).exists()]
    named = set(NAMED.findall(text)) - SYNTHESISED
    missing += [name for name in named if not any((place / name).exists() for place in PLACES)]
    assert not missing


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_of_a_machine_is_named(path: Path) -> None:
    assert not MACHINE.findall(path.read_text())


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.stem)
def test_document_can_be_reached_from_the_readme(path: Path) -> None:
    seen, waiting = set(), [ROOT / "README.md"]
    while waiting:
        here = waiting.pop()
        if here in seen or here.suffix != ".md":
            continue
        seen.add(here)
        links = re.findall(r"\]\(([^)#]+)", here.read_text())
        waiting += [
            (here.parent / link).resolve() for link in links if "://" not in link and (here.parent / link).exists()
        ]
    assert path in seen


def test_readme_holds_the_first_example_word_for_word() -> None:
    example = (ROOT / "docs_src" / "first_run.py").read_text()
    assert f"```python\n{example}```" in (ROOT / "README.md").read_text()
    assert len([line for line in example.splitlines() if line]) <= 6


def test_contributing_is_short() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 60


def test_readme_shows_real_output_and_says_which_command_made_it() -> None:
    _, found, after = (ROOT / "README.md").read_text().partition("<!-- made by: assay demo")
    assert found
    assert "\nCAUGHT: " in after
