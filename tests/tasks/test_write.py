"""Writing task folders, and the scaffold."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from assay.errors import UserError
from assay.tasks import AssayTable, CheckTable, HarborTask, InvalidTask, TaskDraft, init_task, lint_task, load_task
from assay.tasks import write_task as write
from assay.tasks.harbor_config import Artifact, EnvironmentTable, HarborAgentTable, PackageTable
from assay.tasks.parts import read_folder

pytestmark = pytest.mark.quick
Make = Callable[..., Path]
HERE = Path(__file__).parent / "harbor"
FILES = {"instruction.md": "Do it.\n", "tests/test.sh": "#!/bin/sh\n", "tests/run": "#!/usr/bin/env python3\n"}


def test_scaffold_is_clean(tmp_path: Path) -> None:
    loaded = init_task(tmp_path / "deep" / "first")
    assert loaded.task.id == "first"
    assert lint_task(tmp_path / "deep" / "first") == ()


def test_scaffold_that_is_there_is_kept_if_asked(tmp_path: Path) -> None:
    made = init_task(tmp_path / "first")
    (tmp_path / "first" / "instruction.md").write_text("Mine.\n")
    with pytest.raises(UserError, match="exists already"):
        init_task(tmp_path / "first")
    kept = init_task(tmp_path / "first", exist_ok=True)
    assert (kept.task.id, kept.task.instruction) == (made.task.id, "Mine.\n")


def test_draft_comes_back_as_written(tmp_path: Path) -> None:
    config = HarborTask(
        task=PackageTable("local/x", keywords=("a",)),
        agent=HarborAgentTable(timeout_sec=5.0),
        environment=EnvironmentTable(env={"A": 'quote " and \\ and ${B:-c}'}, cpus=0.5),
        artifacts=("/a", Artifact("/b", exclude=("*.o",))),
        metadata={"free": {"x": [1, {"y": "z"}]}},
    )
    ours = AssayTable(split="train", checks=(CheckTable("hidden", "pytest", {"paths": ["tests"]}),))
    loaded = write(tmp_path / "x", TaskDraft(files=FILES, config=config, assay=ours))
    parts = read_folder(tmp_path / "x")
    assert parts.assay == ours
    assert parts.config is not None
    assert msgspec.structs.replace(parts.config, metadata={}) == msgspec.structs.replace(config, metadata={})
    assert loaded.task.metadata["free"] == {"x": [1, {"y": "z"}]}


@pytest.mark.parametrize("name", sorted(p.name for p in HERE.iterdir() if p.is_dir()))
def test_folders_written_by_hand_survive_a_round(tmp_path: Path, name: str) -> None:
    before = read_folder(HERE / name)
    assert before.config is not None
    metadata = {k: v for k, v in before.config.metadata.items() if k != "assay"}
    trees = {
        at: HERE / name / at for at in ("environment", "tests", "solution", "steps") if (HERE / name / at).is_dir()
    }
    files = {at: (HERE / name / at).read_bytes() for at in ("instruction.md",) if (HERE / name / at).is_file()}
    config = msgspec.structs.replace(before.config, metadata=metadata)
    after = write(tmp_path / name, TaskDraft(files=files, config=config, assay=before.assay, trees=trees)).task
    assert after == msgspec.structs.replace(load_task(HERE / name).task, digest=after.digest)


def test_scripts_are_executable(tmp_path: Path) -> None:
    write(tmp_path / "x", TaskDraft(files={**FILES, "tests/data": b"\0"}, executable=("tests/data",)))
    modes = {p: (tmp_path / "x" / p).stat().st_mode & 0o777 for p in ("tests/test.sh", "tests/run", "tests/data")}
    assert modes == {"tests/test.sh": 0o755, "tests/run": 0o755, "tests/data": 0o755}
    assert (tmp_path / "x/instruction.md").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"../x": ""}, "the draft's path '../x' is not inside the task; use a relative path without '..'"),
        ({"/etc/x": ""}, "is not inside the task"),
        ({"src/x": ""}, "the draft's path 'src/x' is not part of a task; use environment, solution, steps, tests or"),
        ({"tests/test.sh": ""}, "instruction.md: is missing; write what the agent shall do"),
    ],
)
def test_wrong_drafts_leave_nothing(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    with pytest.raises(UserError) as caught:
        write(tmp_path / "x", TaskDraft(files=files))
    assert expected in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_would_not_load_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidTask, match="expected org/name of letters") as caught:
        write(tmp_path / "x", TaskDraft(files=FILES, config=HarborTask(task=PackageTable("bad"))))
    assert caught.value.where == str(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_existing_folder_stays_unless_told(tmp_path: Path) -> None:
    write(tmp_path / "x", TaskDraft(files=FILES))
    with pytest.raises(UserError, match="exists already; choose another folder or remove it"):
        write(tmp_path / "x", TaskDraft(files=FILES))
    loaded = write(tmp_path / "x", TaskDraft(files={**FILES, "instruction.md": "Anew.\n"}), replace=True)
    assert loaded.task.instruction == "Anew.\n"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_links_of_a_tree_that_lead_out_are_refused(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/passwd").symlink_to("/etc/passwd")
    with pytest.raises(InvalidTask, match="environment/passwd: is a link to '/etc/passwd', an absolute path"):
        write(tmp_path / "x", TaskDraft(files=FILES, trees={"environment": tmp_path / "tree"}))


def test_our_table_goes_in_its_own_field(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="use the draft's own field `assay` for it"):
        write(tmp_path / "x", TaskDraft(files=FILES, config=HarborTask(metadata={"assay": {}})))
