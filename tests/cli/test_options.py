"""One typed configuration is the command line, the file and the record."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from assay.cli.options import resolve
from assay.errors import UserError
from assay.records import Limits
from assay.rollout import RunConfig, to_toml

pytestmark = pytest.mark.quick


def test_command_line_wins_over_file_and_file_over_default(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('tasks = ["a"]\nattempts = 3\nseed = 5\n[limits]\nturns = 9\n')
    config = resolve(RunConfig, {"config_file": str(file), "seed": 7, "tasks": [], "max_tokens": 100})
    assert (config.tasks, config.attempts, config.seed, config.concurrency) == (("a",), 3, 7, 4)
    assert config.limits == Limits(turns=9, tokens=100)


def test_dry_run_reproduces_itself() -> None:
    config = RunConfig(
        tasks=("a", "b"), agent_options={"budget": 3}, limits=Limits(wall_s=2.5), base={"x:1": "scratch"}
    )
    assert msgspec.convert(tomllib.loads(to_toml(config)), RunConfig) == config


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tasks": []}, "tasks is missing"),
        ({"tasks": ["a"], "attempts": 0}, "attempts is 0"),
        ({"tasks": ["a"], "backend": "process"}, "--allow-unsafe"),
        ({"tasks": ["a"], "base": ["nope"]}, "key=value"),
        ({"tasks": ["a"], "retries": -1}, "retries is -1"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(given: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        resolve(RunConfig, given)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tasks = [", "is not TOML: "),
        ("agnet = 1", "unknown field 'agnet'"),
        ('tasks = ["a"]\nseed = "x"', "seed"),
        ("seed = 0x" + "f" * 20_000, "'seed' has an integer of more than 64 bits"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "run.toml"
    file.write_text(text)
    with pytest.raises(UserError, match=said):
        resolve(RunConfig, {"config_file": str(file)})
