"""A small package with tests, as a tree, an sdist and a repository; and a sandbox to work in."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from assay.environments.interface import Backend
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.settings import Settings

SHAPES = '''"""Shapes."""


def area(width, height):
    """The area of a rectangle; negative sides raise."""
    if width < 0 or height < 0:
        raise ValueError("negative side")
    return width * height


def perimeter(width, height):
    """Twice the sum of the sides."""
    return 2 * (width + height)


def largest(shapes, default=None):
    """The shape with the largest area, the first one of equals."""
    best = default
    for shape in shapes:
        if best is None or area(*shape) > area(*best):
            best = shape
    return best


def runs(items):
    """Lengths of runs of equal items."""
    found = []
    last, count = None, 0
    for item in items:
        if item == last and count:
            count += 1
        else:
            if count:
                found.append(count)
            last, count = item, 1
    if count:
        found.append(count)
    return found


def clamp(value, low=0, high=10):
    """The value, or the nearest bound."""
    if value < low:
        return low
    if value > high:
        return high
    return value
'''
TESTS = """import pytest

from shapes import area, clamp, largest, perimeter, runs


def test_area():
    assert area(2, 3) == 6
    assert area(0, 3) == 0


def test_area_of_squares():
    assert [area(n, n) for n in range(4)] == [0, 1, 4, 9]


def test_area_refuses_negative():
    with pytest.raises(ValueError):
        area(-1, 2)
    with pytest.raises(ValueError):
        area(2, -1)


@pytest.mark.parametrize("side", [1, 2, 3])
def test_perimeter(side):
    assert perimeter(side, side) == 4 * side


def test_perimeter_of_oblong():
    assert perimeter(2, 5) == 14
    assert perimeter(0, 0) == 0


class TestLargest:
    def test_plain(self):
        assert largest([(1, 1), (2, 2), (1, 3)]) == (2, 2)

    def test_first_of_equals(self):
        assert largest([(1, 2), (2, 1)]) == (1, 2)

    def test_default(self):
        assert largest([], (9, 9)) == (9, 9)
        assert largest([]) is None


def test_runs():
    assert runs("aabccc") == [2, 1, 3]


def test_runs_of_nothing():
    assert runs("") == []


def test_runs_single():
    assert runs("a") == [1]
    assert runs("ab") == [1, 1]


def test_clamp():
    assert clamp(5) == 5
    assert clamp(-1) == 0
    assert clamp(11) == 10


def test_clamp_bounds():
    assert clamp(3, 4, 6) == 4
    assert clamp(7, 4, 6) == 6
"""
FILES = {
    "shapes/__init__.py": "from .plane import area, clamp, largest, perimeter, runs\n",
    "shapes/plane.py": SHAPES,
    "tests/test_plane.py": TESTS,
    "README.md": "Shapes.\n",
    "shapes/__pycache__/plane.pyc": "x",
    "shapes.egg-info/PKG-INFO": "Name: shapes\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "shapes-1.0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "shapes-1.0"


def write_sdist(folder: Path) -> Path:
    path = folder / "shapes-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in FILES.items():
            entry = tarfile.TarInfo(f"shapes-1.0/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


@pytest.fixture
def sdist(tmp_path: Path) -> Path:
    return write_sdist(tmp_path)


Commit = Callable[[str, dict[str, str]], None]


@pytest.fixture
def commit(folder: Path) -> Commit:
    """Writes files of the folder and commits all of it."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": "A", f"GIT_{role}_EMAIL": "a@b", f"GIT_{role}_DATE": "2024-01-01T00:00:00Z"}
    git = ["git", "-c", "init.defaultBranch=main", "-C", str(folder)]
    subprocess.run([*git, "init", "-q"], check=True, env=environment)

    def write(message: str, files: dict[str, str]) -> None:
        for name, text in files.items():
            (folder / name).write_text(text)
        subprocess.run([*git, "add", "-A"], check=True, env=environment)
        subprocess.run([*git, "commit", "-q", "-m", message], check=True, env=environment)

    return write


@pytest.fixture
def repository(folder: Path, commit: Commit) -> Path:
    """Three commits: the package, a corrected `clamp` with its test and a note of it, and a change of words."""
    wrong = SHAPES.replace("return high\n", "return low\n")
    early = TESTS.replace("    assert clamp(11) == 10\n", "").replace("    assert clamp(7, 4, 6) == 6\n", "")
    commit("First", {"shapes/plane.py": wrong, "tests/test_plane.py": early, "CHANGES": "1.0\n"})
    told = {"CHANGES": "1.0\n1.1: clamp returned the lower bound\n", "FIXED": "clamp\n"}
    commit("Correct the upper bound", {"shapes/plane.py": SHAPES, "tests/test_plane.py": TESTS, **told})
    commit("Words", {"README.md": "Shapes of the plane.\n", "shapes/later.py": "LATER = 1\n"})
    return folder


@pytest.fixture(scope="session")
def cache() -> Path:
    return Settings.from_environment().cache


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    made = NamespacesBackend()
    yield made
    await made.close()
