"""Twelve folders written by hand, which between them use every key."""

import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import inspect

from assay.records import Check, Limits, Oracle, Task, canonical_bytes, decode
from assay.tasks import AssayTable, HarborTask, LoadedTask, lint_task, load_task, load_tasks

HERE = Path(__file__).parent / "harbor"
NAMES = sorted(p.name for p in HERE.iterdir() if p.is_dir())
HARBOR = os.environ.get("ASSAY_HARBOR") or shutil.which("harbor")


def loaded(name: str) -> LoadedTask:
    return load_task(HERE / name)


def parameters(name: str) -> dict[str, Any]:
    return loaded(name).task.environment.parameters


def alternatives(kind: Any) -> list[Any]:
    if isinstance(kind, inspect.Metadata):
        return alternatives(kind.type)
    return [a for t in kind.types for a in alternatives(t)] if isinstance(kind, inspect.UnionType) else [kind]


def unused(kind: Any, values: list[Any], at: str) -> set[str]:
    """Keys of the schema that none of the values has."""
    found: set[str] = set()
    for option in alternatives(kind):
        if isinstance(option, inspect.VarTupleType):
            found |= unused(option.item_type, [i for v in values if isinstance(v, list) for i in v], at)
        if isinstance(option, inspect.StructType):
            tables = [v for v in values if isinstance(v, dict)]
            for field in option.fields:
                given = [t[field.encode_name] for t in tables if field.encode_name in t]
                here = f"{at}.{field.encode_name}"
                found |= unused(field.type, given, here) if given else {here}
    return found


def test_every_key_is_used() -> None:
    tables = [tomllib.loads((HERE / name / "task.toml").read_text()) for name in NAMES]
    ours = [t["metadata"]["assay"] for t in tables if "assay" in t.get("metadata", {})]
    missing = unused(inspect.type_info(HarborTask), tables, "task") | unused(
        inspect.type_info(AssayTable), ours, "ours"
    )
    # An environment of the verifier has the same keys as the agent's, which are all used.
    assert {m for m in missing if ".verifier.environment." not in m and not m.startswith("task.steps.")} == set()
    assert {m for m in missing if m.startswith("task.steps.") and m.count(".") == 2} == set()
    deprecated = {key for t in tables for key in (*t, *t.get("environment", {}))}
    assert deprecated >= {"version", "memory", "storage", "allow_internet"}


@pytest.mark.quick
def test_all_load_without_errors() -> None:
    tasks = load_tasks([HERE])
    assert len(tasks) == 12
    assert [t.folder.name for t in tasks if t.folder] == NAMES
    assert {t.folder.name for t in tasks if t.folder and t.warnings} == {"old-schema"}


@pytest.mark.quick
@pytest.mark.parametrize("name", NAMES)
def test_record_survives_storage(name: str) -> None:
    task = loaded(name).task
    assert decode(canonical_bytes(task), Task) == task
    assert str(HERE) not in canonical_bytes(task).decode()


@pytest.mark.quick
@pytest.mark.parametrize("name", NAMES)
def test_lint_finds_no_errors(name: str) -> None:
    assert {f.rule for f in lint_task(HERE / name) if f.severity != "note"} <= {"deprecated-key"}


@pytest.mark.skipif(not HARBOR, reason="harbor is not installed here: put it on PATH or name it in ASSAY_HARBOR")
def test_harbor_lints_them_clean(tmp_path: Path) -> None:
    folders = [HERE / name for name in NAMES]
    environment = {**os.environ, "HARBOR_TELEMETRY": "off", "HOME": str(tmp_path)}
    command = [str(HARBOR), "lint", "--json", *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert json.loads(done.stdout) == []
    assert done.returncode == 0


@pytest.mark.quick
def test_canary_is_not_shown() -> None:
    assert str(loaded("hello-file").task.instruction).startswith("Create the file")


@pytest.mark.quick
def test_package_table_and_metadata_are_kept() -> None:
    task = loaded("hello-file").task
    assert (task.id, task.tags, task.source) == ("assay/hello-file", ("files", "smallest"), "written by hand")
    assert task.metadata["written"] == "2026-11-21"
    assert task.oracle == Oracle(("/bin/sh", "solve.sh"), "solution")


@pytest.mark.quick
def test_script_check_says_how_to_judge() -> None:
    (check,) = loaded("sum-columns").task.checks
    assert (check.name, check.kind, check.parameters["mode"]) == ("tests", "script", "separate")
    assert check.parameters["script"] == "tests/test.sh"
    assert check.parameters["timeout_s"] == 60.0
    assert check.parameters["env"] == {"EXPECTED_ROWS": "1"}
    assert check.parameters["environment"]["memory_mb"] == 512
    assert check.parameters["literal"] is False


@pytest.mark.quick
def test_artifacts_and_collect_are_recorded() -> None:
    assert parameters("sum-columns")["artifacts"] == [
        {"source": "/workspace/totals.csv"},
        {
            "source": "/workspace/work",
            "destination": "scratch/work",
            "exclude": ["*.tmp", "cache"],
            "service": "main",
        },
    ]
    collect = parameters("collect-state")["collect"]
    assert [c["timeout_sec"] for c in collect] == [20.0, 60.0]


@pytest.mark.quick
def test_templates_stay_unresolved() -> None:
    task = loaded("json-rewards").task
    assert task.environment.parameters["env"]["UNIT"] == "${ASSAY_FIXTURE_UNIT:-metre}"
    assert task.oracle is not None
    assert task.oracle.env == {"UNIT_TO_WRITE": "${ASSAY_FIXTURE_UNIT:-metre}"}


@pytest.mark.quick
def test_unstated_network_is_none_unless_harbors_is_asked_for(make: Callable[..., Path]) -> None:
    unstated = load_task(make()).task.environment.parameters
    assert (unstated["network_mode"], unstated["network_stated"]) == ("no-network", False)
    literal = load_task(make("[metadata.assay]\nharbor_literal = ['network']")).task.environment.parameters
    assert (literal["network_mode"], literal["network_stated"]) == ("public", False)
    assert loaded("ctrf-report").task.checks[0].parameters["literal"] is True
    assert (parameters("health-wait")["network_mode"], parameters("health-wait")["network_stated"]) == (
        "no-network",
        True,
    )


@pytest.mark.quick
def test_phase_network_comes_before_the_environments() -> None:
    assert parameters("network-policy")["network_mode"] == "no-network"
    assert parameters("network-policy")["allowed_hosts"] == []
    (step,) = [s for s in loaded("three-steps").steps if s.name == "report"]
    assert step.network == {"network_mode": "allowlist", "network_stated": True, "allowed_hosts": ["example.com"]}


@pytest.mark.quick
def test_tools_skills_and_healthcheck_are_recorded() -> None:
    found = parameters("tools-and-skills")
    assert [s["transport"] for s in found["mcp_servers"]] == ["stdio", "sse", "streamable-http"]
    assert found["skills_dir"] == "/workspace/skills"
    assert parameters("health-wait")["healthcheck"]["retries"] == 2


@pytest.mark.quick
def test_limits_users_and_resources() -> None:
    found = loaded("ready-image")
    assert found.task.limits == Limits(wall_s=60.0, working_s=45.0, turns=20, calls=40, tokens=50000, cost_usd=0.25)
    kept = found.task.environment.parameters
    assert (kept["docker_image"], kept["cpus"], kept["agent_user"]) == ("python:3.12-slim", 2.0, "agent")
    assert (kept["verifier_user"], kept["processes"], kept["tmp_mb"]) == (65534, 128, 128)
    assert "folder" not in kept
    assert (kept["requirements"], kept["masked_packages"]) == (["pytest==8.3.4"], ["inflect"])
    assert found.task.environment.seed == 7


@pytest.mark.quick
def test_our_checks_replace_the_script() -> None:
    task = loaded("pytest-checks").task
    (check,) = task.checks
    assert isinstance(check, Check)
    assert (check.name, check.kind) == ("hidden", "pytest")
    assert check.parameters["expected"] == ["test_words.py::test_ends_in_y"]
    assert (task.split, task.tags) == ("train", ("repair", "pytest", "python", "strings"))


@pytest.mark.quick
def test_steps_have_their_own_parts() -> None:
    collect, count, report = loaded("three-steps").steps
    assert [s.check.parameters["script"] for s in (collect, count, report)] == [
        "steps/collect/tests/test.sh",
        "steps/count/tests/test.sh",
        "tests/test.sh",
    ]
    assert (collect.min_reward, count.min_reward) == (1.0, {"reward": 1.0, "lines": 0.5})
    assert (count.workdir, report.trajectory) == ("steps/count/workdir", "steps/report/trajectory.json")
    assert [s.limits.wall_s for s in (collect, count, report)] == [60.0, 120.0, 120.0]
    assert [s.check.parameters["timeout_s"] for s in (collect, count, report)] == [30.0, 20.0, 30.0]


@pytest.mark.quick
def test_steps_have_their_own_verifier() -> None:
    task, _, steps, _ = loaded("three-steps")
    assert [c.name for c in task.checks] == ["tests/collect", "tests/count", "tests/report"]
    assert [s.check.parameters["mode"] for s in steps] == ["shared", "shared", "separate"]
    assert steps[2].oracle == Oracle(("/bin/sh", "solve.sh"), "steps/report/solution")
    assert task.oracle is not None
    assert task.oracle.folder == "steps"
    assert task.oracle.command[2].startswith("/bin/sh /solution/collect/solution/solve.sh && /bin/sh ")
    assert "Step 2 of 3" in str(task.instruction)
    assert task.environment.parameters["multi_step_reward_strategy"] == "final"


@pytest.mark.quick
def test_deprecated_keys_mean_what_they_meant() -> None:
    found = parameters("old-schema")
    assert (found["memory_mb"], found["storage_mb"], found["network_mode"]) == (512, 1024, "no-network")
    fields = {w.field for w in loaded("old-schema").warnings}
    assert fields == {"version", "environment.memory", "environment.storage", "environment.allow_internet"}
