"""`assay alarm`, over stored runs and while one is written."""

from __future__ import annotations

import json
import queue
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.records import AttemptStarted, Observation, Step, StepAdded, ToolCall
from assay.rollout.audit.alarm_config import AlarmConfig
from assay.rollout.audit.alarms import RunAlarm, watch_run
from assay.store import RunStore

STARTED = AttemptStarted("r", "t@0", "t", "blake3:" + "0" * 64, "someone", None, 1, 0, at=1.0)


def assay(store: Path, *words: str) -> Any:
    return CliRunner().invoke(build_app(), [*words, "--store", str(store)])


def step(index: int, *, fails: bool) -> StepAdded:
    seen = Observation("no such file" if fails else "ok", exit_code=int(fails), error=fails)
    return StepAdded(Step(index, "agent", tool_calls=(ToolCall("c", "shell", "{}", {}),), observations=(seen,)))


def test_an_alarm_is_raised_while_the_run_is_written(tmp_path: Path) -> None:
    heard: queue.Queue[RunAlarm] = queue.Queue()
    with RunStore.create(tmp_path, "r", {}) as writer:
        writer.append("c", [STARTED, step(0, fails=False)])
        config = AlarmConfig(follow=True)
        watching = threading.Thread(target=watch_run, args=(tmp_path, "r", config, heard.put))
        watching.start()
        with pytest.raises(queue.Empty):
            heard.get(timeout=1)
        writer.append("c", [step(1, fails=True)])
        found = heard.get(timeout=30)
        assert watching.is_alive()
    watching.join(timeout=30)
    assert not watching.is_alive()
    assert (found.task, found.alarm.step, found.alarm.who) == ("t", 1, "agent")


def test_the_command_names_what_where_and_who(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as writer:
        writer.append("c", [STARTED, *(step(n, fails=n in (1, 2)) for n in range(3))])
    shown = assay(tmp_path, "alarm", "r")
    assert shown.exit_code == 1
    assert shown.stdout.splitlines()[1].split()[:4] == ["t@0", "1", "agent", "action:"]
    found = json.loads(assay(tmp_path, "alarm", "r", "--every", "--threshold", "0.5", "--json").stdout)
    assert [one["alarm"]["step"] for one in found["alarms"]] == [1, 2]
    assert found["scores"] is None
    assert assay(tmp_path, "alarm", "r", "--threshold", "9").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("r", "--threshold", "0"), "threshold"),
        (("r", "--contract", "missing.toml"), "cannot read the contract"),
        (("r", "--attempt", "u@0"), "is not an attempt"),
        (("nowhere",), "nowhere"),
    ],
)
def test_bad_input_is_one_paragraph(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    with RunStore.create(tmp_path, "r", {}) as writer:
        writer.append("c", [STARTED])
    found = assay(tmp_path, "alarm", *words)
    assert found.exit_code == 2
    assert message in found.output
