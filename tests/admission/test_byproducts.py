"""Files that solving adds and that no verifier reads are left alone by cheats and mutants."""

from __future__ import annotations

import pytest

from assay.admission._byproducts import find_byproducts
from assay.admission._changes import changed_files
from assay.admission.sensitivity import mutants
from assay.agents.cheats._modules import python_files
from assay.agents.cheats.interface import Knowledge, SolutionFile

pytestmark = pytest.mark.quick
REPORT = SolutionFile("/workspace/report.json", None, b'{"n": 3}\n')
SCRIPT = SolutionFile("/workspace/count.py", None, b"import helper\nprint(3)\n")
HELPER = SolutionFile("/workspace/helper.py", None, b"ONE = 1\n")
ALL = (SCRIPT, HELPER, REPORT)
TOLD = ("Write the count to /workspace/report.json.",)
READS_REPORT = "json.loads(Path('/workspace/report.json').read_text())"


def byproducts(verifier: str, files: tuple[SolutionFile, ...] = ALL, artifacts: tuple[str, ...] = ()) -> set[str]:
    return set(find_byproducts(files, artifacts, verifier, TOLD))


def test_a_script_that_nobody_names_is_a_byproduct() -> None:
    assert byproducts(READS_REPORT) == {SCRIPT.path, HELPER.path}


@pytest.mark.parametrize(
    "verifier",
    [
        "python3 /workspace/count.py",
        "sys.path.insert(0, '/workspace')\nfrom count import n",
        "importlib.import_module('count')",
        "for path in Path('/workspace').glob('*'): read(path)",
        "ls /workspace",
        "",
    ],
)
def test_what_the_verifier_names_or_may_read_is_in_use_with_what_it_imports(verifier: str) -> None:
    assert byproducts(verifier) == set()


def test_a_changed_file_and_a_declared_output_are_in_use() -> None:
    changed = SolutionFile("/workspace/count.py", b"", b"import helper\n")
    assert byproducts(READS_REPORT, (changed, HELPER, REPORT)) == set()
    assert byproducts(READS_REPORT, artifacts=("/workspace",)) == set()


def test_nothing_is_a_byproduct_where_no_file_is_named() -> None:
    assert byproducts("exit 0", (SCRIPT, HELPER)) == set()


def test_cheats_and_mutants_leave_byproducts_alone() -> None:
    knowledge = Knowledge("/workspace", ALL, byproducts=frozenset({SCRIPT.path, HELPER.path}))
    assert python_files(knowledge) == ()
    assert [file.path for file in changed_files(knowledge)] == [REPORT.path]


@pytest.mark.parametrize("seed", range(6))
def test_a_literal_that_the_verifier_does_not_name_is_changed_first(seed: int) -> None:
    answer = SolutionFile("/workspace/n.txt", None, b"10 20 30 40\n")
    drawn = mutants(Knowledge("/workspace", (answer,)), seed=seed, most=4, verifier="10 20 40")
    assert ["+10 20 31 40" in one.diff for one in drawn if one.operator == "number-shifted"] == [True]
