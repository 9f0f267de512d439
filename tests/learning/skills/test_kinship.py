"""The same tasks under other names, in other folders and with other bytes are the same holdout."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from assay.errors import UserError
from assay.learning.skills.holdouts import HoldoutLedger
from assay.learning.skills.kinship import keys_of_task, kinship_keys
from assay.tasks import LoadedTask, find_tasks, load_task

TOML = 'schema_version = "1.4"\n[agent]\ntimeout_sec = 60\n[verifier]\ntimeout_sec = 60\n'
FILES = {
    "task.toml": TOML,
    "instruction.md": "Write the total of all invoices to total.txt.\n",
    "environment/invoices.csv": "a,1\nb,2\n",
    "environment/rules.py": "def tax(total):\n    return total * 2\n",
    "tests/test.sh": "#!/bin/sh\npython3 /tests/test_total.py && echo 1 > /logs/verifier/reward.txt\n",
    "tests/test_total.py": "assert open('total.txt').read() == '3'\n",
    "solution/solve.sh": "#!/bin/sh\necho 3 > total.txt\n",
}


def write(folder: Path, **changes: str) -> LoadedTask:
    for path, text in {**FILES, **{name.replace("__", "/"): text for name, text in changes.items()}}.items():
        file = folder / (path if "." in path else f"{path}.md")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return load_task(folder)


ALTERED = {
    "another folder": {},
    "a comment in a test": {"tests/test_total.py": "# now\nassert open('total.txt').read()   ==   '3'\n"},
    "a blank line in the solution": {"solution/solve.sh": "#!/bin/sh\n\n# so\necho 3 > total.txt\n"},
    "other case and spaces": {"instruction.md": "write the  TOTAL of all invoices to total.txt.\n\n"},
    "an empty file": {"environment/notes.txt": "\n"},
    "another instruction": {"instruction.md": "Sum the invoices up, and leave the sum in total.txt.\n"},
    "another solution": {"solution/solve.sh": "#!/bin/sh\nawk -F, '{s+=$2} END {print s}' invoices.csv > total.txt\n"},
    "another limit": {"task.toml": TOML.replace("60", "70")},
}


@pytest.mark.parametrize("how", ALTERED)
def test_altered_copy_is_the_same_task(tmp_path: Path, how: str) -> None:
    first, second = write(tmp_path / "one"), tmp_path / "two"
    shutil.copytree(tmp_path / "one", second)
    for path, text in ALTERED[how].items():
        (second / path).write_text(text)
    assert not kinship_keys([first]).isdisjoint(keys_of_task(load_task(second)))


def test_other_work_in_the_same_repository_is_another_task(tmp_path: Path) -> None:
    first, second = write(tmp_path / "one"), tmp_path / "two"
    shutil.copytree(tmp_path / "one", second)
    (second / "environment/rules.py").write_text("def tax(total):\n    return total + 2\n")
    (second / "solution/solve.sh").write_text("#!/bin/sh\necho 4 > total.txt\n")
    assert kinship_keys([first]).isdisjoint(keys_of_task(load_task(second)))


def test_world_with_a_default_spelt_out_is_the_same_task_and_another_seed_another() -> None:
    plain, spelt, longer, other = (
        find_tasks((f"family:adventure,n=8,{options}",))
        for options in ("seed=77", "seed=77,rooms=5", "seed=77,turns=90", "seed=78")
    )
    assert {one.task.digest for one in plain}.isdisjoint(one.task.digest for one in (*spelt, *longer))
    assert kinship_keys(plain) == kinship_keys(spelt) == kinship_keys(longer)
    assert kinship_keys(plain).isdisjoint(kinship_keys(other))


def test_level_is_spent_under_every_name_of_a_task(tmp_path: Path) -> None:
    ledger = HoldoutLedger(tmp_path)
    first, again = (find_tasks((f"family:adventure,n=4,seed=9{more}",)) for more in ("", ",rooms=5"))
    ledger.spend([one.task.digest for one in first], 0.05, skill="a", version="v", kin=kinship_keys(first))
    with pytest.raises(UserError, match="used up"):
        ledger.spend([one.task.digest for one in again], 0.05, skill="b", version="v", kin=kinship_keys(again))


@pytest.mark.parametrize("terms", [600, 1_500, 100_000])
def test_code_that_is_nested_too_deeply_is_compared_as_text(tmp_path: Path, terms: int) -> None:
    deep = {"environment__deep.py": f"total = {' + '.join(['1'] * terms)}\n"}
    one, two = write(tmp_path / "one", **deep), write(tmp_path / "two", **deep)
    assert keys_of_task(one) == keys_of_task(two)
