"""Other releases of a package, read from folders and wheels."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from assay.errors import UserError
from assay.synthesis import SynthesisConfig
from assay.synthesis._entry_trace import compare_changes
from assay.synthesis._releases import apply_release, load_releases
from assay.synthesis._tree import SourceTree, load_source

pytestmark = pytest.mark.quick
TEXT = "def area(a, b):\n    return a * b\n\n\ndef unit():\n    return 'm'\n"
OTHER = "import math\n\n\ndef area(a, b):\n    return math.prod((a, b))\n"


def write(folder: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return str(folder)


@pytest.fixture
def tree(tmp_path: Path) -> SourceTree:
    files = {"src/areas/__init__.py": TEXT, "tests/test_areas.py": "def test_area(): pass\n"}
    return load_source(write(tmp_path / "areas-2.0", files))


def test_a_wheel_and_a_folder_without_tests_are_releases(tmp_path: Path, tree: SourceTree) -> None:
    with zipfile.ZipFile(tmp_path / "areas-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("areas/__init__.py", OTHER)
        wheel.writestr("areas-1.0.dist-info/METADATA", "Name: areas\nVersion: 1.0\n")
    folder = write(tmp_path / "areas-1.5", {"areas/__init__.py": TEXT})
    releases = load_releases((folder, str(tmp_path / "areas-1.0-py3-none-any.whl")), tree)
    assert [release.name for release in releases] == ["areas 1.0", "areas 1.5"]
    assert releases[0].files == {"areas/__init__.py": OTHER}


def test_the_version_of_a_release_has_its_changed_functions_alone(tmp_path: Path, tree: SourceTree) -> None:
    path, broken = "src/areas/__init__.py", TEXT.replace("a * b", "a + b")
    (release,) = load_releases((write(tmp_path / "areas-1.0", {"areas/__init__.py": OTHER}),), tree)
    changes = compare_changes({path: TEXT}, {path: broken})
    assert apply_release(release, tree, {path: TEXT}, changes or {}) == {
        path: TEXT.replace("a * b", "math.prod((a, b))")
    }
    unit = compare_changes({path: TEXT}, {path: TEXT.replace("'m'", "'n'")})
    assert apply_release(release, tree, {path: TEXT}, unit or {}) is None


def test_what_is_no_other_release_is_refused(tmp_path: Path, tree: SourceTree) -> None:
    other = write(tmp_path / "volumes-1.0", {"volumes/__init__.py": ""})
    with pytest.raises(UserError, match="not a release of areas"):
        load_releases((other,), tree)
    with pytest.raises(UserError, match="does not exist"):
        load_releases(("pytest",), tree)
    same = [write(tmp_path / name / "areas-1.0", {"areas/__init__.py": TEXT}) for name in "ab"]
    with pytest.raises(UserError, match="second release named areas"):
        load_releases(tuple(same), tree)


def test_releases_without_calls_are_refused() -> None:
    with pytest.raises(UserError, match="add separation_calls"):
        SynthesisConfig(source="areas", out="tasks", releases=("areas-1.0",))
