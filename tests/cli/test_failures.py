"""What a user is told when an agent, a command or a configuration breaks: the messages, read as they are printed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay.records import AttemptEnded, AttemptStarted, Evidence, EvidenceAdded, Step, StepAdded
from assay.rollout.diagnosis import lint_warnings
from assay.store import RunStore
from assay.tasks import init_task, load_task

Say = Callable[..., tuple[int, str, str]]
CRASHING = """
class Boom:
    name = "boom"
    needs_model = False
    def __init__(self, depth=1):
        self.depth = depth
    async def run(self, attempt):
        self.helper({})
    def helper(self, table):
        return table["missing"]
"""


def write_agent(name: str, body: str, *, head: str = 'name = "odd"; needs_model = False') -> str:
    Path(name).write_text(f"import asyncio, sys\nclass Odd:\n    {head}\n    {body}\n")
    return name


def test_a_crash_names_file_line_and_function(say: Say) -> None:
    Path("boom.py").write_text(CRASHING)
    _, _, err = say("run", "family:grid,n=1", "--agent", "boom.py")
    assert "grid-0-0@0: agent failed: agent boom: KeyError: 'missing' (boom.py, line 10, in helper)" in err
    shown = say("show", "grid")[1]
    assert '    File "boom.py", line 8, in run\n        self.helper({})\n' in shown
    assert "    KeyError: 'missing'\n" in shown


def test_a_crash_in_a_task_group_names_the_inner_error(say: Say) -> None:
    body = "async def run(self, attempt):\n        async with asyncio.TaskGroup() as g: g.create_task(self.go())\n"
    write_agent("group.py", body + "    async def go(self): raise ValueError('inner')")
    assert "ValueError: inner (group.py, line " in say("run", "family:grid,n=1", "--agent", "group.py")[2]


ENDINGS = {
    "def run(self, attempt): pass": "not asynchronous: write `async def",
    "async def run(self, attempt): sys.exit(4)": "agent odd: called sys.exit(4) (odd.py, line 4, in run)",
}


@pytest.mark.parametrize("body", ENDINGS)
def test_an_agent_that_misuses_run_breaks_its_attempt_alone(body: str, say: Say) -> None:
    assert ENDINGS[body] in say("run", "family:grid,n=1", "--agent", write_agent("odd.py", body))[2]


BROKEN = {
    "a failing constructor": (
        "def __init__(self): self.x = 1 / 0",
        "name = 'odd'",
        "cannot be constructed: ZeroDivisionError: division by zero (odd.py, line 4, in __init__)",
    ),
    "a failing import": (
        "import nowhere",
        "",
        "does not import: ModuleNotFoundError: No module named 'nowhere' (odd.py",
    ),
    "a file that exits": ("", "raise SystemExit(0)", "does not import: SystemExit: 0 (odd.py, line 3, in Odd)"),
    "a syntax error": ("x = (", "", "does not import: SyntaxError: '(' was never closed (odd.py, line 4)"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_agent_that_does_not_load_is_refused_before_the_run(name: str, say: Say) -> None:
    body, head, message = BROKEN[name]
    code, out, err = say("run", "family:grid,n=1", "--agent", write_agent("odd.py", body, head=head))
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_file_without_the_named_agent_says_what_it_defines(say: Say) -> None:
    Path("none.py").write_text("x = 1\n")
    assert "none.py defines no agent: define one as a class there" in say("run", "family:grid", "--agent", "none.py")[2]
    write_agent("odd.py", "", head="name = 'odd'")
    assert "odd.py defines no 'Od'; did you mean Odd?" in say("run", "family:grid", "--agent", "odd.py:Od")[2]


def test_file_without_the_named_script_says_what_it_defines(say: Say) -> None:
    Path("model.py").write_text("def answer(request):\n    return 'yes'\n")
    argv = ("run", "family:grid,n=1", "--agent", "loop", "--model")
    assert "model.py defines no 'anser'; did you mean answer?" in say(*argv, "scripted:model.py:anser")[2]
    assert "model.py defines no 'x'; its scripts are: answer" in say(*argv, "scripted:model.py:x")[2]


def test_store_named_by_a_url_is_refused(say: Say) -> None:
    code, _, err = say("run", "family:grid,n=1", "--agent", "expert", "--store", "s3://bucket/runs")
    assert (code, "assay store copy FROM TO" in err, Path("s3:").exists()) == (2, True, False)


def test_full_disk_under_an_out_file_names_the_file(say: Say) -> None:
    code, _, err = say("formats", "--out", "/dev/full")
    assert (code, "/dev/full: the disk is full: free some space" in err) == (3, True)


def test_offset_past_the_last_attempt_says_so(say: Say) -> None:
    say("run", "family:grid,n=2", "--agent", "expert", "--run", "two")
    assert "no attempt is left after --offset 9: run two has 2 attempts" in say("ls", "two", "--offset", "9")[1]


def test_an_unknown_option_of_an_agent_is_no_crash_of_it(say: Say) -> None:
    Path("boom.py").write_text(CRASHING)
    code, _, err = say("run", "family:grid,n=1", "--agent", "boom.py", "--agent-option", "dept=3")
    assert (code, "does not take these options (dept)" in err) == (2, True)


def record_failed_program(root: Path, *, whole: bytes) -> None:
    with RunStore.create(root, "r", {}) as store:
        cut = whole.decode()[-400:]
        data = {
            "argv": ["my agent", "--yes"],
            "exit_code": 3,
            "beside": True,
            "stderr": cut,
            "stderr_bytes": len(whole),
        }
        found = Evidence("e1", "audit", "execution", data, (store.blobs.put(b"in"), store.blobs.put(whole)))
        store.append("t@0.0", [AttemptStarted("r", "t@0", "t", "d", "command", None, 1, 0), EvidenceAdded(found)])
        store.append("t@0.0", [AttemptEnded("the command ended with exit code 3", at=2.0)])


def test_a_failed_command_shows_its_exit_code_and_the_end_of_stderr(say: Say, tmp_path: Path) -> None:
    record_failed_program(tmp_path / "store", whole=b"".join(b"line %d\n" % n for n in range(100)))
    shown = say("show", "t@0")[1]
    assert "program failed with exit code 3: 'my agent' --yes\n" in shown
    assert shown.count("\n    line ") == 20
    assert "line 99\n" in shown
    assert say("show", "t@0", "--full")[1].count("\n    line ") == 100


def test_a_program_that_ended_well_without_a_step_shows_what_it_printed(say: Say, tmp_path: Path) -> None:
    data = {
        "argv": "my-agent",
        "exit_code": 0,
        "beside": True,
        "stdout": "no key found, skipped\n",
        "stderr": "a hint\n",
    }
    acted = Step(0, "agent", "done")
    with RunStore.create(tmp_path / "store", "r", {}) as store:
        for number, steps in enumerate(([], [StepAdded(acted)])):
            started = AttemptStarted("r", f"t@{number}", "t", "d", "command", None, 1, number)
            program = EvidenceAdded(Evidence("e1", "audit", "execution", data))
            store.append(f"t@{number}.0", [started, *steps, program, AttemptEnded("ended", at=2.0)])
    said = "program ended with exit code 0: my-agent\n    no key found, skipped\n    a hint\n"
    assert said in say("show", "t@0")[1]
    assert said not in say("show", "t@1")[1]
    assert said in say("show", "t@1", "--full")[1]


def test_a_run_in_which_every_attempt_broke_exits_with_3(say: Say) -> None:
    Path("boom.py").write_text(CRASHING)
    code, out, err = say("run", "family:grid,n=2", "--agent", "boom.py", "--run", "r")
    assert (code, "boom" in out) == (3, True)
    assert "assay: every attempt broke (2 of 2: agent failed in 2)" in err
    assert "first grid-0-0@0: agent boom: KeyError: 'missing' (boom.py, line 10, in helper); `assay show" in err
    assert '"all_broke": "every attempt broke' in say("resume", "r", "--json")[1]


def test_a_limit_that_stopped_every_attempt_is_named(say: Say) -> None:
    write_agent("say.py", "async def run(self, attempt):\n        while True: attempt.say('x')")
    code, _, err = say("run", "family:grid,n=2", "--agent", "say.py", "--max-turns", "3")
    warning = "warning: all 2 attempts were stopped by the limit turns, so the agent never finished"
    assert (code, f"{warning}: raise it with --max-turns, or in the task's own limits" in err) == (0, True)


def test_a_run_in_which_nothing_could_be_judged_is_told(say: Say) -> None:
    say("init", "task", "t")
    Path("t/tests/test.sh").write_text("exit 0  # reward.txt is never written\n")
    code, _, err = say("run", "t", "--agent", "null", "--run", "r")
    assert (code, "no attempt could be judged (1 of 1 are unknown): `assay show t@0 --run r`" in err) == (0, True), err


def test_a_model_that_no_attempt_asked_is_named(say: Say) -> None:
    Path("replies.json").write_text('["hi"]')
    body = "async def run(self, attempt): attempt.finish('done')"
    write_agent("mute.py", body, head="name = 'mute'; needs_model = True")
    err = say("run", "family:grid,n=1", "--agent", "mute.py", "--model", "scripted:replies.json")[2]
    assert "warning: no attempt asked the model scripted:replies.json: the agent mute made no call" in err
    assert re.search(r"attempt.ask\); `assay show \S+@0 --run \S+` shows what it did$", err, re.MULTILINE)


def test_a_model_for_an_agent_that_asks_none_is_named(say: Say) -> None:
    err = say("run", "family:grid,n=1", "--agent", "null", "--model", "openai:x")[2]
    assert "warning: the agent null asks no model: openai:x is not used" in err


def test_a_misspelt_limit_of_a_task_is_named_before_the_run(tmp_path: Path) -> None:
    init_task(tmp_path / "hello")
    path = tmp_path / "hello" / "task.toml"
    path.write_text(path.read_text().replace("timeout_sec", "timout_sec"))
    first, *_ = lint_warnings([load_task(path.parent)])
    assert (
        "task.toml:16: agent.timout_sec: is not a known key; did you mean timeout_sec?; the key has no effect" in first
    )


SLOW = """
import asyncio, os
class Slow:
    name, needs_model = "slow", False
    async def run(self, attempt):
        if attempt.task.id != "grid-0-0" and not os.path.exists("go"):
            await asyncio.sleep(300)
        attempt.finish("done")
"""


@pytest.fixture
def _heard_signals() -> Iterator[None]:
    """Commands inherit what is ignored, as `nohup` ignores SIGHUP and a shell SIGINT in the background."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGHUP, signal.SIGTERM)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.long
@pytest.mark.usefixtures("_heard_signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interruption_names_the_run_and_the_resumed_tally_is_whole(number: int, code: int, say: Say) -> None:
    Path("slow.py").write_text(SLOW)
    words = ["run", "family:grid,n=2", "--agent", "slow.py", "--run", "cut"]
    program = "import sys; from assay.cli import main; sys.argv[0] = 'assay'; main()"
    with subprocess.Popen([sys.executable, "-c", program, *words], stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        lines = iter(child.stderr.readline, "")
        next(line for line in lines if line.startswith("1/2 done"))
        child.send_signal(number)
        rest = "".join(lines)
    assert "1 of 2 attempts of run cut have ended and are kept; finish it with `assay resume cut`" in rest
    assert (child.returncode, "Traceback" in rest) == (code, False)
    Path("go").touch()
    assert "2/2 done: 2 fail" in say("resume", "cut")[2]


@pytest.mark.long
@pytest.mark.usefixtures("_heard_signals")
def test_a_closed_terminal_is_an_interruption(say: Say, tmp_path: Path) -> None:
    Path("slow.py").write_text(SLOW)
    program = "import sys; from assay.cli import main; sys.argv[0] = 'assay'; main()"
    argv = [sys.executable, "-c", program, "run", "family:grid,n=2", "--agent", "slow.py", "--run", "cut"]
    controller, terminal = os.openpty()
    with subprocess.Popen(argv, stdout=terminal, stderr=terminal, start_new_session=True) as child:
        os.close(terminal)
        assert os.read(controller, 1)  # the table is drawn once the run has begun
        os.close(controller)
        child.send_signal(signal.SIGHUP)  # the kernel sends it to the session of a controlling terminal
    assert child.returncode == 129


LONG = "a" * 5000


@pytest.mark.parametrize("words", [["ls", LONG], ["view", LONG], ["import", LONG], ["run", "t", "--config", LONG]])
def test_a_long_name_is_shortened_in_the_message(words: list[str], say: Say) -> None:
    RunStore.create(Path("store"), "r", {}).close()
    code, _, err = say(*words)
    assert (code, len(err) < 400, "characters)..." in err) == (2, True, True), err


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ["gateway", "--model", "scripted:r.json"],
        ["serve", "--policy", "a=scripted:r.json", "--agent", "null", "--family", "grid"],
    ],
)
def test_a_port_in_use_is_one_paragraph(words: list[str], say: Say) -> None:
    Path("r.json").write_text('["hi"]')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        program = "import sys; from assay.cli import main; sys.argv[0] = 'assay'; main()"
        port = str(taken.getsockname()[1])
        ended = subprocess.run(
            [sys.executable, "-c", program, *words, "--port", port], capture_output=True, text=True, timeout=120
        )
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"assay: port {port} on 127.0.0.1 is not available: Address already in use")
    assert len(ended.stderr.splitlines()) == 1


MAKING = """
import sys, time
class Making:
    def tasks(self, n, seed):
        print("making", file=sys.stderr, flush=True)
        time.sleep(120)
"""


@pytest.mark.long
@pytest.mark.usefixtures("_heard_signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_ends_the_making_of_tasks(number: int, code: int, say: Say) -> None:
    Path("making.py").write_text(MAKING)
    words = ["run", "family:making.py", "--agent", "done"]
    program = "import sys; from assay.cli import main; sys.argv[0] = 'assay'; main()"
    with subprocess.Popen([sys.executable, "-c", program, *words], stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        lines = iter(child.stderr.readline, "")
        next(line for line in lines if line == "making\n")
        child.send_signal(number)
        child.wait(timeout=30)
        rest = "".join(lines)
    assert (child.returncode, "Traceback" in rest) == (code, False)


@pytest.mark.parametrize(
    "words",
    [
        ["sweep", "family:grid,n=2", "--agent", "expert", "--agent", "null"],
        ["run", "family:grid,n=2", "--agent", "null", "--attempts", "1", "--attempts=2"],
        ["skills", "ls", "--store", "x", "--store", "x"],
    ],
)
def test_an_option_of_one_value_that_is_given_twice_is_refused(words: list[str], say: Say) -> None:
    code, _, err = say(*words)
    assert code == 2
    assert re.search(r"--(agent|attempts|store) is given more than once, and takes one value", err)
