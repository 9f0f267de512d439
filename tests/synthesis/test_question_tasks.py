"""Questions about recorded calls of a small package, traced in the sandbox."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from assay.environments.interface import Backend
from assay.errors import UserError
from assay.synthesis import QuestionReport, QuestionTasksConfig, synthesise_questions
from assay.synthesis._call_traces import assigning_lines
from assay.tasks import load_task

TALLY = '''
def tally(words):
    """Counts words."""
    counts = {}
    longest = ""
    for word in words:
        counts[word] = counts.get(word, 0) + 1
        longest = max(longest, word, key=len)
    both = [longest, counts]
    return both
'''
TESTS = """from tally import tally


def test_tally():
    assert tally(["to", "be", "too", "to"]) == ["too", {"to": 2, "be": 1, "too": 1}]
"""
WHOLE = ["too", {"to": 2, "be": 1, "too": 1}]
TIMES = {"first": "to", "second": "to", "third": "too", "4th": "too"}
EXPECTED = {
    "`both` of `tally` when line 9 has run the first time": WHOLE,
    **{f"`longest` of `tally` when line 8 has run the {time} time": word for time, word in TIMES.items()},
}
FILES = {"tally/__init__.py": TALLY, "tests/test_tally.py": TESTS}


async def make(top: Path, backend: Backend, cache: Path, **more: object) -> QuestionReport:
    for name, text in FILES.items():
        path = top / "tally-1.0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    config = QuestionTasksConfig(source=str(top / "tally-1.0"), out=str(top / "out"), per_function=20, **more)
    return await synthesise_questions(config, backend=backend, cache=cache)


@pytest.mark.long
async def test_questions_have_the_answers_of_the_execution(tmp_path: Path, backend: Backend, cache: Path) -> None:
    report = await make(tmp_path, backend, cache)
    answers = {}
    for entry in report.tasks:
        text = str(load_task(tmp_path / "out" / entry.id).task.instruction)
        asked = next(line for line in text.splitlines() if line.startswith("What")).partition("?")[0]
        answers[asked] = json.loads((tmp_path / "out" / entry.id / "tests/answer.json").read_text())["result"]
    assert answers.pop("What does it return") == WHOLE
    ((asked, answer),) = answers.items()
    assert EXPECTED[asked.removeprefix("What is the value of the local variable ")] == answer
    assert report.asked == {"return": 1, "variable": 1}


@pytest.mark.long
async def test_the_same_seed_gives_the_same_questions_and_no_answer_is_shown(
    tmp_path: Path, backend: Backend, cache: Path
) -> None:
    first = await make(tmp_path, backend, cache)
    second = await make(tmp_path, backend, cache)
    assert first == second
    for entry in first.tasks:
        folder = tmp_path / "out" / entry.id
        seen = (folder / "instruction.md").read_text() + (folder / "environment/Dockerfile").read_text()
        answer = json.loads((folder / "tests/answer.json").read_text())["result"]
        assert json.dumps(answer) not in seen
        assert "Counts words" not in seen


def test_lines_with_computed_assignments_alone_are_asked_for() -> None:
    (node,) = ast.parse(TALLY).body
    assert isinstance(node, ast.FunctionDef)
    assert list(assigning_lines(node)) == [(4, ["counts"]), (9, ["both"]), (8, ["longest"])]


def test_no_kinds_are_refused() -> None:
    with pytest.raises(UserError, match="name at least one of return, variable"):
        QuestionTasksConfig(source="x", out="y", kinds=())
