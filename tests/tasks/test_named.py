"""Tasks by name: folders, and families with their options."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import AssayError, UserError
from assay.tasks import find_tasks, init_task

pytestmark = pytest.mark.quick
FAMILY = """
from assay.records import Check, EnvironmentSpec, Task
class Sums:
    def __init__(self, largest=9, word="sum", exact=False):
        self.largest, self.word, self.exact = largest, word, exact
    def tasks(self, n, seed):
        for i in range(min(n, self.largest)):
            spec = EnvironmentSpec("sums", {"exact": self.exact}, seed)
            yield Task(f"{self.word}-{seed}-{i}", "add", spec, (Check("c", "facts"),), f"d{seed}{i}")
"""


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A family that an installed package registers as `sums`."""
    (tmp_path / "sums_of_a_package.py").write_text(FAMILY)
    metadata = tmp_path / "sums-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: sums\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[assay.tasks]\nsums = sums_of_a_package:Sums\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "sums"


def ids(*names: str) -> list[str]:
    return [loaded.task.id for loaded in find_tasks(names)]


def test_a_family_is_found_by_its_entry_point_with_its_options(family: str) -> None:
    assert ids("family:sums,n=2,seed=7") == ["sum-7-0", "sum-7-1"]
    assert ids("family:sums,n=1,word=plus,exact=true") == ["plus-0-0"]
    assert len(ids("family:sums")) == 9
    assert find_tasks(["family:sums,n=1,exact=true"])[0].task.environment.parameters == {"exact": True}


def test_a_family_is_found_by_file_and_by_module(family: str, tmp_path: Path) -> None:
    assert ids(f"family:{tmp_path}/sums_of_a_package.py:Sums,n=1") == ["sum-0-0"]
    assert ids("family:sums_of_a_package:Sums,n=1") == ["sum-0-0"]


def test_folders_and_families_can_be_mixed_and_named_twice(family: str, tmp_path: Path) -> None:
    init_task(tmp_path / "hello")
    wanted = ["family:sums,n=1", str(tmp_path / "hello"), str(tmp_path / "hello"), "family:sums,n=1"]
    assert ids(*wanted) == ["hello", "sum-0-0"]
    with pytest.raises(UserError, match="a family and a family"):
        find_tasks(["family:sums,n=1", "family:sums,n=2"])
    with pytest.raises(UserError, match="is named twice"):
        find_tasks([str(tmp_path / "hello"), str(tmp_path / "hello") + "/."])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("family:", "names no family"),
        ("family:sum", "did you mean sums"),
        ("family:sums,n=0", "at least 1"),
        ("family:sums,n=2.5", "whole number"),
        ("family:sums,n=true", "whole number"),
        ("family:sums,seed=-1", "at least 0"),
        ("family:sums,seed=99999999999999999999", "whole number"),
        ("family:sums,n=1,n=2", "is given twice"),
        ("family:sums,=3", "key=value"),
        ("family:sums,colour=red", r"does not take these options \(colour\)"),
        ("family:sums,largest=many", "task family 'sums': TypeError"),
        ("family:sums,word=two words,n=1", "not a Task with a valid id"),
        ("family:nowhere.py,n=1", "no task file nowhere.py"),
    ],
)
def test_a_wrong_name_says_what_is_wrong(family: str, name: str, said: str) -> None:
    with pytest.raises(AssayError, match=said):
        find_tasks([name])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return [1, 2]", "not a Task with a valid id"),
        ("import itertools; return itertools.repeat(T)", "gave 3 tasks with 1 ids"),
        ("return []", "gave 0 tasks"),
        ("raise ValueError('no')", "ValueError: no"),
        ("return None", "TypeError"),
    ],
)
def test_a_family_that_misbehaves_is_named(tmp_path: Path, body: str, said: str) -> None:
    head = "from assay.records import EnvironmentSpec, Task\nT = Task('t', 'x', EnvironmentSpec('k'), (), 'd')\n"
    (tmp_path / "odd.py").write_text(f"{head}class Odd:\n    def tasks(self, n, seed):\n        {body}\n")
    with pytest.raises(AssayError, match=said):
        find_tasks([f"family:{tmp_path}/odd.py,n=2"])
