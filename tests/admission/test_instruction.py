"""Heuristics over a task's text: what is demanded and not told, what is given away."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.admission._demands import parse_python_demands, parse_shell_demands
from assay.admission.instruction import review
from assay.agents.cheats.interface import Knowledge, SolutionFile
from assay.tasks import LoadedTask, TaskDraft, load_task, write_task

pytestmark = pytest.mark.quick

TEST = '''"""Reads /app/not_told_in_docstring.txt."""
import json
import re
from pathlib import Path

from tool.parts import clamp


def test_all(tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    data = json.loads(Path("/app/report.json").read_text())
    assert data["total"] == 3
    assert "DONE" in Path("/app/run.log").read_text()
    assert re.match(r"^Summary: \\d+$", data["line"])
    table = {"own": 1}
    assert table["own"] == 1
    assert clamp(1, 2, 3)
'''
SOLVE = 'echo "def clamp(*a): return 1" > /app/tool/parts.py\n'
SOLVE += 'echo \'{"total": 3, "line": "Summary: 3"}\' > /app/report.json\necho DONE > /app/run.log\n'


def task(folder: Path, instruction: str, files: Mapping[str, str | bytes] | None = None) -> LoadedTask:
    texts: dict[str, str | bytes] = {
        "instruction.md": instruction,
        "environment/Dockerfile": "FROM scratch\n",
        "tests/test.sh": "exit 1\n",
        "solution/solve.sh": SOLVE,
        **(files or {}),
    }
    return write_task(folder / "t", TaskDraft(files=texts))


def found(loaded: LoadedTask, knowledge: Knowledge | None = None) -> dict[str, list[str]]:
    seen: dict[str, list[str]] = {}
    for finding in review(loaded, knowledge):
        assert finding.heuristic
        seen.setdefault(finding.kind, []).append(finding.text)
    return seen


def test_what_tests_name_and_nobody_mentions(tmp_path: Path) -> None:
    seen = found(task(tmp_path, "Do the work.", {"tests/test_all.py": TEST}))
    assert set(seen) == {"untold-path", "untold-name", "untold-key", "untold-literal", "untold-format"}
    assert [text.split("'")[1] for text in seen["untold-path"]] == ["/app/report.json", "/app/run.log"]
    assert [text.split("'")[1] for text in seen["untold-name"]] == ["tool.parts", "clamp"] or len(
        seen["untold-name"]
    ) == 2
    assert {text.split("'")[1] for text in seen["untold-key"]} == {"total", "line"}


def test_what_is_told_is_no_finding(tmp_path: Path) -> None:
    said = "Write report.json with `total` and `line` (`Summary: N`), DONE to /app/run.log; repair clamp in tool/parts."
    assert found(task(tmp_path, said, {"tests/test_all.py": TEST})) == {}


def test_what_stands_in_an_archive_of_the_image_is_told(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        content = b"def clamp(): 'report.json run.log DONE Summary total line'\n"
        entry = tarfile.TarInfo("tool/parts.py")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    loaded = task(tmp_path, "Do it.", {"tests/test_all.py": TEST, "environment/source.tar.gz": packed.getvalue()})
    assert found(loaded) == {}


def test_what_tests_name_counts_only_where_the_author_has_it(tmp_path: Path) -> None:
    loaded = task(tmp_path, "Do it.", {"tests/test_all.py": TEST, "solution/solve.sh": "python3 /solution/real.py\n"})
    assert found(loaded) == {}
    changed = known("/app/report.json", None, b'{"total": 3}')
    assert {kind: len(texts) for kind, texts in found(loaded, changed).items()} == {"untold-path": 1, "untold-key": 1}


def test_shell_tests_name_paths_and_what_they_grep_for() -> None:
    script = (
        "mkdir -p /app/made\n# /app/no.txt\ngrep -q 'all well' /app/out.log && test -f /app/data/x.csv\nls /tmp/a.txt\n"
    )
    assert [(d.kind, d.value) for d in parse_shell_demands(script, "t")] == [
        ("path", "/app/out.log"), ("path", "/app/data/x.csv"), ("literal", "all well"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("solution-in-image", {"environment/old/notes.sh": SOLVE}),
        ("solution-in-image", {"environment/solve.sh": "something else\n"}),
        ("solution-in-image", {"environment/Dockerfile": "FROM scratch\nCOPY a /opt/solution\n", "environment/a": ""}),
        ("tests-in-image", {"environment/extra/check.py": TEST, "tests/check.py": TEST, "environment/d": TEST}),
    ],
)  # fmt: skip
def test_copies_in_the_image_are_found(tmp_path: Path, name: str, files: dict[str, str | bytes]) -> None:
    assert name in found(task(tmp_path, "Do it.", files))


def known(path: str, before: bytes | None, after: bytes | None) -> Knowledge:
    return Knowledge("/workspace", (SolutionFile(path, before, after),))


TABLE = b'{"a":1,"b":2,"c":3}'
PAIRS = {"environment/c.py": "X = {'a': 1, 'b': 2, 'c': 3}"}
STUB = b"def f(items): ...\n"
PROGRAM = (
    b"def f(items):\n    found = sorted(set(items), key=len)\n    return [item for item in found if item is not None]\n"
)


@pytest.mark.parametrize(
    ("kind", "instruction", "files", "knowledge"),
    [
        ("answer-in-instruction", "It is 90210, by the way.", {}, known("/w/answer.txt", None, b"90210\n")),
        ("answer-in-image", "Count.", {"environment/old.txt": "was 90210"}, known("/w/answer.txt", None, b"90210\n")),
        ("answer-in-image", "Write f.", {"environment/bak.py": PROGRAM}, known("/w/m.py", STUB, PROGRAM)),
        ("answer-in-image", "Count.", PAIRS, known("/w/x.json", None, TABLE)),
    ],
)  # fmt: skip
def test_answers_that_can_be_read_are_found(
    tmp_path: Path, kind: str, instruction: str, files: dict[str, str | bytes], knowledge: Knowledge
) -> None:
    assert set(found(task(tmp_path, instruction, files), knowledge)) == {kind}


@pytest.mark.parametrize("after", [b"12\n", b"yes\n", b"Hello, world!\n"])
def test_short_answers_stand_anywhere_by_chance(tmp_path: Path, after: bytes) -> None:
    loaded = task(tmp_path, f"Write 12 or yes: {after.decode()}", {"environment/a.txt": after})
    assert found(loaded, known("/w/answer.txt", None, after)) == {}


@pytest.mark.parametrize("name", ["hello-file", "pytest-checks", "three-steps", "json-rewards", "collect-state"])
def test_real_tasks_that_tell_everything_have_no_finding(name: str) -> None:
    assert found(load_task(Path(__file__).parent.parent / "tasks" / "harbor" / name)) == {}


@given(st.text(max_size=200), st.sampled_from(["python", "shell"]))
def test_any_text_is_read(text: str, language: str) -> None:
    for demand in (parse_python_demands if language == "python" else parse_shell_demands)(text, "t"):
        assert demand.value
