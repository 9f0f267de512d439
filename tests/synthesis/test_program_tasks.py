"""Functions of a small package as tasks in another language, made and judged in the sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.environments.interface import Backend
from assay.errors import UserError
from assay.synthesis import ProgramReport, ProgramTasksConfig, synthesise_programs
from assay.tasks import load_task

READING = """
use JSON::PP;
my $json = JSON::PP->new->allow_nonref;
while (my $line = <STDIN>) {
    my $request = $json->decode($line);
"""
CLAMP = f"""{READING}
    my ($value, $low, $high) = ($request->{{value}}, $request->{{low}} // 0, $request->{{high}} // 10);
    my $found = $value < $low ? $low : $value > $high ? $high : $value;
    printf "{{\\"result\\": %.17g}}\\n", $found;
}}
"""
AREA = f"""{READING}
    printf "{{\\"result\\": %.17g}}\\n", $request->{{width}} * $request->{{height}};
}}
"""


BOUNDS = '''
def clamp(value, low=0, high=10):
    """Returns the value, or the nearest bound."""
    if value < low:
        return low
    if value > high:
        return high
    return value


def area(width, height):
    """Returns the area of a rectangle; negative sides raise."""
    if width < 0 or height < 0:
        raise ValueError("negative side")
    return width * height


def between(items, first):
    """Yields items and what goes between them."""
    for item in items:
        yield first
        yield item
        first = "; "
'''
TESTS = """import pytest

from bounds import area, between, clamp


@pytest.mark.parametrize(("value", "bound"), [(5, 5), (-1, 0), (11, 10)])
def test_clamp(value, bound):
    assert clamp(value) == bound
    assert clamp(value + 20, 4, 6) == 6


def test_area():
    assert area(2, 3) == 6
    assert area(4, 5) == 20
    with pytest.raises(ValueError):
        area(-1, 2)


def test_between():
    assert list(between(["a", "b"], "")) == ["", "a", "; ", "b"]
    assert list(between([1, 2, 3], "x")) == ["x", 1, "; ", 2, "; ", 3]
"""


async def make(top: Path, backend: Backend, cache: Path, **more: object) -> ProgramReport:
    for name, text in {"bounds-1.0/bounds/__init__.py": BOUNDS, "bounds-1.0/tests/test_bounds.py": TESTS}.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    given = {"source": str(top / "bounds-1.0"), "out": str(top / "out"), "language": "perl", "mutants": 4, **more}
    return await synthesise_programs(ProgramTasksConfig(**given), backend=backend, cache=cache)


@pytest.mark.long
async def test_functions_become_tasks_whose_solutions_were_judged(
    tmp_path: Path, backend: Backend, cache: Path
) -> None:
    (tmp_path / "clamp.pl").write_text(CLAMP)
    (tmp_path / "area.pl").write_text(AREA)
    report = await make(tmp_path, backend, cache, solutions=str(tmp_path))
    kept = {entry.function.partition("::")[2]: entry for entry in report.tasks}
    assert {name: entry.solution for name, entry in kept.items()} == {"clamp": "program", "between": "bridge"}
    assert report.reasons["bounds/__init__.py::area"].startswith("solution: fail")
    assert all(entry.mutants[0] >= 0.95 * entry.mutants[1] > 0 for entry in report.tasks)
    assert sum(report.ended.values()) == report.candidates == 3
    hides_reference(tmp_path / "out" / kept["between"].id)


def hides_reference(folder: Path) -> None:
    text = str(load_task(folder).task.instruction)
    seen = text + "".join(p.read_text() for p in (folder / "environment").rglob("*") if p.is_file())
    assert "Yields items and what goes between them." in text
    assert '{"items": [1, 2, 3], "first": "x"}\n    {"result": ["x", 1, "; ", 2, "; ", 3]}' in text
    assert "yield" not in seen
    assert (folder / "tests/reference/bounds/__init__.py").read_text() == BOUNDS


async def test_a_language_that_is_not_installed_is_explained(tmp_path: Path, backend: Backend, cache: Path) -> None:
    file = tmp_path / "cobol.toml"
    file.write_text('name = "COBOL"\nfile = "main.cob"\nrun = ["cobol"]\nprobe = ["no-such-cobol", "--version"]\n')
    with pytest.raises(UserError, match="cobol is not installed where the sandbox finds it"):
        await make(tmp_path, backend, cache, language=str(file))
