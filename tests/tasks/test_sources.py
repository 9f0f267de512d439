"""Templates, families, and lines of fields."""

from pathlib import Path

import pytest

from assay.errors import PluginLoadError, TaskError, UserError
from assay.tasks import family_tasks, load_family, load_task, resolve_env, resolve_task
from assay.tasks.toml_source import line_of

pytestmark = pytest.mark.quick
FAMILY = """
from assay.records import Check, EnvironmentSpec, Task
class Sums:
    def __init__(self, largest: int = 9) -> None:
        self.largest = largest
    def tasks(self, n, seed):
        return [Task(f"sum-{seed}-{i}", "Add.", EnvironmentSpec("x"), (), f"d{i}") for i in range(min(n, self.largest))]
"""


def family(folder: Path, text: str) -> str:
    (folder / "family.py").write_text(text)
    return str(folder / "family.py")


def test_family_makes_tasks_without_folders(tmp_path: Path) -> None:
    made = family_tasks(family(tmp_path, FAMILY), 3, 7)
    assert [one.task.id for one in made] == ["sum-7-0", "sum-7-1", "sum-7-2"]
    assert {one.folder for one in made} == {None}
    assert len(family_tasks(family(tmp_path, FAMILY), 3, 7, {"largest": 1})) == 1


def test_wrong_family_options_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"does not take these options \(smallest\); it has n, seed, largest"):
        load_family(family(tmp_path, FAMILY), {"smallest": 1})


def test_class_that_is_no_family_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PluginLoadError, match=r"has no method tasks\(n, seed\)"):
        load_family(family(tmp_path, "class Nothing: pass"))


def test_unknown_family_is_named() -> None:
    with pytest.raises(UserError, match="no task is called 'sumz'"):
        load_family("sumz")


def test_family_that_fails_is_a_task_error(tmp_path: Path) -> None:
    broken = "class B:\n    def tasks(self, n, seed): raise RuntimeError('no luck')"
    with pytest.raises(TaskError, match="RuntimeError: no luck"):
        family_tasks(family(tmp_path, broken), 1, 0)


def test_one_id_twice_in_a_family_is_an_error(tmp_path: Path) -> None:
    twice = FAMILY.replace('f"sum-{seed}-{i}"', '"same"')
    with pytest.raises(UserError, match="gave 2 tasks with 1 ids where 2 were requested"):
        family_tasks(family(tmp_path, twice), 2, 0)


def test_templates_take_the_value_then_the_default() -> None:
    env = {"A": "${X}", "B": "${Y:-two words}", "C": "${X:-other}", "D": "pre-${X}", "E": "$X", "F": "${Z:-}"}
    resolved = resolve_env(env, {"X": "one"})
    assert resolved == {"A": "one", "B": "two words", "C": "one", "D": "pre-${X}", "E": "$X", "F": ""}


def test_unset_variables_are_all_named() -> None:
    with pytest.raises(UserError, match=r"not set: X \(for verifier.env.A\), Y \(for verifier.env.B\); set them"):
        resolve_env({"A": "${X}", "B": "${Y}"}, {}, where="verifier.env")


def test_whole_task_is_resolved() -> None:
    task = load_task(Path(__file__).parent / "harbor" / "json-rewards").task
    resolved = resolve_task(task, {"ASSAY_FIXTURE_UNIT": "mile"})
    assert resolved.environment.parameters["env"] == {"UNIT": "mile", "LENGTH": "42"}
    assert resolved.checks[0].parameters["env"] == {"EXPECTED_UNIT": "mile"}
    assert resolved.oracle is not None
    assert resolved.oracle.env == {"UNIT_TO_WRITE": "mile"}
    assert resolved.digest == task.digest


TEXT = '''
source = """
[agent]
x = 1
"""
[agent]
timeout_sec = 1
[[steps]]
name = "a"
[steps.agent]
user = "x"
[[steps]]
name = "b"
[steps.verifier.environment]
cpus = 1
[[steps.verifier.collect]]
command = "x"
'''


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("source", 2),
        ("agent.timeout_sec", 7),
        ("agent.user", 6),
        ("steps[0].agent.user", 11),
        ("steps[1].name", 13),
        ("steps[1].verifier.environment.cpus", 15),
        ("steps[1].verifier.collect[0].command", 17),
        ("steps[1].agent.user", 12),
        ("environment.cpus", None),
        ("steps[7]", None),
    ],
)
def test_line_of_a_field(field: str, line: int | None) -> None:
    assert line_of(TEXT, field) == line
