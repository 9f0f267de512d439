"""Every notebook runs in an empty folder, and prints what it shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from scripts.run_notebooks import NOTEBOOKS, ROOT, run_notebook
from tests.docs.test_documents import MACHINE

INDEXES = [ROOT / "docs" / "README.md", ROOT / "docs" / "tutorial-python.md"]
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def texts(notebook: dict[str, Any]) -> list[tuple[str, str]]:
    """Source and printed text of each code cell; markup of tables is left out."""
    found = []
    for cell in notebook["cells"]:
        # The kernel sends a stream in one or several parts, as its timer falls.
        printed = ["".join(output.get("text") or output.get("data", {}).get("text/plain", ""))
                   for output in cell.get("outputs", ())]  # fmt: skip
        lines = [line for text in printed for line in text.splitlines()]
        found.append(("".join(cell["source"]), "\n".join(lines)))
    return found


@pytest.mark.long
@each_notebook
def test_notebook_prints_what_it_shows(path: Path, tmp_path: Path) -> None:
    why = "not installed: `make test` installs requirements-local.txt"
    for library in ("nbclient", "ipykernel", "pandas"):
        pytest.importorskip(library, reason=f"{library} is {why}")
    shown = texts(json.loads(path.read_text()))
    assert texts(run_notebook(path, tmp_path)) == shown, "run scripts/run_notebooks.py"
    assert any(printed for _, printed in shown)


@pytest.mark.quick
@each_notebook
def test_notebook_is_linked_and_links_to_what_exists(path: Path) -> None:
    text = "\n".join(source for source, _ in texts(json.loads(path.read_text())))
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []
    assert all(f"(notebooks/{path.name})" in index.read_text() for index in INDEXES)


@pytest.mark.quick
@each_notebook
def test_notebook_names_nothing_of_a_machine(path: Path) -> None:
    assert not MACHINE.findall(path.read_text())
