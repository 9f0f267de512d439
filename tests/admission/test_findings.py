"""Every kind of finding is listed, and the documentation has a section on each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick
ROOT = Path(__file__).parent.parent.parent
KINDS = (
    "cheat-passed",
    "null-passed",
    "no-oracle",
    "not-set-up",
    "oracle-not-judged",
    "oracle-fails",
    "oracle-flaky",
    "oracle-breaks-under",
    "mutant-survived",
    "mutants-undecided",
    "low-sensitivity",
    "separation-lowered",
    "variant-failed",
    "untold-path",
    "untold-name",
    "untold-key",
    "untold-format",
    "untold-literal",
    "answer-in-instruction",
    "answer-in-image",
    "solution-in-image",
    "tests-in-image",
    "too-easy",
    "impossible",
    "model-review",
    "not-judged",
    "not-compared",
)
"""Every kind of finding, in the order of the page."""


def kinds_in(tree: ast.AST) -> Iterator[str]:
    """Constants that are given as a finding's kind, directly or by a variable of that name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "AdmissionFinding":
            given = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "kind")]
            yield from (n.value for n in given if isinstance(n, ast.Constant))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "_finding":
            yield from (n.value for n in node.args[1:2] if isinstance(n, ast.Constant))


def test_every_kind_in_the_source_is_listed() -> None:
    sources = (ROOT / "src" / "assay" / "admission").glob("*.py")
    found = {kind for path in sources for kind in kinds_in(ast.parse(path.read_text()))}
    assert {"mutant-survived", "no-oracle", "answer-in-image"} <= found
    assert found <= set(KINDS)


def test_every_kind_has_its_section_and_no_section_is_of_another() -> None:
    page = (ROOT / "docs" / "soundness.md").read_text()
    assert re.findall(r"^### `([\w-]+)`$", page, re.MULTILINE) == list(KINDS)
