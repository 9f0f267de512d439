"""Exports in the hands of those they are for."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.learning.export.config import WriteConfig
from assay.learning.export.exporting import export_for_training
from assay.records import Body
from assay.settings import Settings
from tests.learning.recorded import asked_again, store_run

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parent / "consumers"
NEEDED = ("trl", "datasets", "accelerate", "torch", "renderers")


def ran(python: str, program: str, *arguments: Path) -> dict[str, Any]:
    """What a program of `consumers` printed last."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [python, "-W", "ignore", PROGRAMS / program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def with_trl(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"TRL cannot be run: {', '.join(missing)} not installed (requirements-local.txt)")
    return ran(sys.executable, "with_trl.py", tmp_path_factory.mktemp("trl"))


@pytest.mark.parametrize("name", ["sft", "chat", "dpo", "dpo_tokens", "grpo"])
def test_trl_takes_two_steps_on_it(with_trl: dict[str, Any], name: str) -> None:
    assert (with_trl[name]["steps"], with_trl[name]["moved"]) == (2, True)


def test_trl_trains_the_sampled_tokens_and_no_others(with_trl: dict[str, Any]) -> None:
    assert with_trl["sft"]["exact"] == [True, True]


def test_arguments_come_through_datasets_as_they_were(with_trl: dict[str, Any]) -> None:
    up, right, key = {"direction": "up"}, {"direction": "right"}, {"key": "k", "n": 1}
    assert with_trl["chat"]["arguments"] == [up, right, up, key, right]
    assert all("field" not in said for said in with_trl["chat"]["said"])


@pytest.mark.parametrize("name", ["dpo", "dpo_tokens"])
def test_dpo_trains_one_message_and_no_token_of_a_tool(with_trl: dict[str, Any], name: str) -> None:
    said = with_trl[name]["said"]
    assert len(said) == 2 * with_trl[name]["pairs"] == 4
    for text in said:
        assert text.count("<tool_call>") == text.count("<|im_end|>") == 1
        assert "tool_response" not in text
        assert "field" not in text


def test_trls_log_probabilities_are_those_that_were_recorded(with_trl: dict[str, Any]) -> None:
    assert with_trl["grpo"]["gap"] < 1e-4
    assert with_trl["grpo"]["clipped"] == 0
    assert len(with_trl["grpo"]["shape"]) == 2  # advantages of B rows and T tokens


@pytest.mark.parametrize("lines", [1, 2])
def test_parsers_of_trainers_that_need_a_gpu_take_it(
    attempt: Callable[..., list[Body]], tmp_path: Path, lines: int
) -> None:
    folder = Path(os.environ.get("ASSAY_TRAINERS", ROOT / ".trainers"))
    if not (folder / "venv").is_dir():
        pytest.skip("no trainers to check with: sh scripts/trainers-for-tests.sh FOLDER, and ASSAY_TRAINERS=FOLDER")
    first, second = attempt("a0", "up", "right"), attempt("a1", "left", outcome="fail", number=1)
    store = store_run(tmp_path / "s", [first if lines == 1 else asked_again(first), second])
    for name in ("verl", "skyrl", "tinker"):
        config = WriteConfig(to=name, out=str(tmp_path / name))
        export_for_training("r", config, Settings(cache=tmp_path, store=store))
    found = ran(str(folder / "venv" / "bin" / "python"), "with_wheels.py", tmp_path, folder)
    assert found == dict.fromkeys(("verl", "skyrl", "tinker"), lines + 1)
