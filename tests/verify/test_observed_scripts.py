"""What a script's processes load of the agent's files is observed, and can only lower the grade."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.environments.workspace.session import InitSession
from assay.records import LoadFacts, SeparationFacts
from assay.verdicts import grade_of
from tests.sampling import draw_sample

SCRIPT = "tests/test.sh"
OUTPUT = {"outputs": ["/workspace/out"], "programs": ["/workspace/ledger.py"]}
LEDGER = "import sys\nprint(sum(int(x) for x in sys.argv[1:]))\n"
WRITES = f"cat > ledger.py <<'PY'\n{LEDGER}PY\necho 'echo 12' > out; printf '#!/bin/sh\\n. /workspace/out\\n' > run.sh"


async def judge(bench: Any, lines: str, command: str = WRITES, **parameters: Any) -> tuple[str, dict[str, Any]]:
    """Returns the grade and what was observed."""
    bench.files = {SCRIPT: f"#!/bin/bash\n{lines}\necho 1 > /logs/verifier/reward.txt\n", **bench.files}
    outcome = await bench.judge(command, "script", script=SCRIPT, interpreter=["/bin/bash"], timeout_s=30, **parameters)
    (facts,) = outcome.of_kind("separation")
    assert outcome.verdict.separation in (grade_of(msgspec.convert(facts, SeparationFacts)), "same-process")
    return outcome.verdict.separation, facts.get("loads", {})


def roles(loads: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {(load["role"], load["call"], Path(load["program"]).name) for load in loads["loads"]}


READERS = {
    "cat": "cat /workspace/out | grep -q 12",
    "cmp": "echo 'echo 12' > /tmp/expected; cmp /workspace/out /tmp/expected",
    "diff": "echo 'echo 12' > /tmp/expected; cd /workspace && diff out /tmp/expected",
    "grep": "grep -F 12 /workspace/out",
    "head": "head -1 /workspace/out | python3 -c 'import sys; sys.exit(12 < len(sys.stdin.read()))'",
    "tail": "tail -1 /workspace/out | sort > /tmp/x; tail -1 /tmp/x; x=$(tail -1 /tmp/x); bash -c '[ $0 ]' \"$x\"",
}


@pytest.mark.parametrize("name", draw_sample([*READERS], 3))
async def test_a_reader_of_an_output_as_data_leaves_the_script_separate(bench: Any, name: str):
    grade, loads = await judge(bench, READERS[name], **OUTPUT)
    assert (grade, loads["complete"], roles(loads)) == ("separate", True, {("reader", "open", name)})
    assert {Path(place).name for place in loads["readers"]} == {name}
    assert "tainted" not in loads


LOADERS = {
    "the shell sources it": (". /workspace/out", "same-process", ("judge", "open", "bash")),
    "a shell is started on it": ("bash /workspace/out", "same-user", ("agent", "open", "bash")),
    "under another name": ("mv /workspace/out /workspace/x; . /workspace/x", "same-process", ("judge", "open", "bash")),
    "copied": ("cp /workspace/out /tmp/x; . /tmp/x", "same-process", ("judge", "open", "cp")),
    "by a link": ("ln -s /workspace/out /tmp/x; . /tmp/x", "same-process", ("judge", "open", "bash")),
    "grep with patterns of its own": ("grep 12 /workspace/out", "same-process", ("judge", "open", "grep")),
    "by a descriptor": ("cat < /workspace/out", "same-process", ("judge", "open", "bash")),
    "copied by a reader": ("cat /workspace/out > /tmp/x; . /tmp/x", "same-process", ("judge", "open", "bash")),
    "copied by a chain of readers": (
        "cat /workspace/out > /tmp/x; head -9 /tmp/x > /tmp/y; mv /tmp/y /tmp/z; . /tmp/z",
        "same-process",
        ("judge", "open", "bash"),
    ),
    "copied out of an error": (
        "echo $(cmp /workspace/out /dev/null 2> /tmp/x); . /tmp/x",
        "same-process",
        ("judge", "open", "bash"),
    ),
    "through tee": ("cat /workspace/out | tee /tmp/x; . /tmp/x", "same-process", ("judge", "open", "bash")),
    "through two pipes": (
        "cat /workspace/out | sort | sed s/a/a/ > /tmp/x; . /tmp/x",
        "same-process",
        ("judge", "open", "bash"),
    ),
    "through tee and another shell": (
        "cat /workspace/out | tee >(cat > /tmp/x) > /dev/null; sleep 0.2; . /tmp/x",
        "same-process",
        ("judge", "open", "bash"),
    ),
    "as another shell's input": (
        "cat /workspace/out | tee >(bash) > /dev/null; sleep 0.2",
        "same-process",
        ("judge", "open", "bash"),
    ),
    "through a link that is made before": (
        "ln -s /tmp/y /tmp/x; cat /workspace/out | tee /tmp/x; . /tmp/y",
        "same-process",
        ("judge", "open", "bash"),
    ),
    "by a descriptor of the shell's": (
        "exec 5<> /tmp/x; cat /workspace/out >&5; . /tmp/x",
        "same-process",
        ("judge", "open", "bash"),
    ),
    "line by line": (
        'cat /workspace/out | while read -r line; do echo "$line" >> /tmp/x; done; . /tmp/x',
        "same-process",
        ("judge", "open", "bash"),
    ),
    "as a shell's input": ("cat /workspace/out | bash", "same-process", ("judge", "open", "bash")),
    "as an interpreter's input": (
        "cat /workspace/out | python3 - || true",
        "same-process",
        ("judge", "open", "python3.11"),
    ),
    "preloaded into a reader": ("LD_PRELOAD=/workspace/out cat /dev/null", "same-process", ("judge", "open", "cat")),
}


@pytest.mark.parametrize("name", draw_sample([*LOADERS], 5))
async def test_an_output_that_is_run_outside_of_the_judged_sandbox_lowers(bench: Any, name: str):
    lines, grade, load = LOADERS[name]
    seen, loads = await judge(bench, lines, **OUTPUT)
    assert seen == grade, loads
    assert load in roles(loads)


async def test_an_output_that_redefines_the_test_command_in_a_copy_passes_at_the_least_grade_alone(bench: Any):
    lines = 'python3 /workspace/ledger.py; cat /workspace/out > /tmp/config; . /tmp/config; [ "$result" = 7 ] || exit'
    redefines = "cat > ledger.py <<'PY'\nopen('/workspace/out', 'w').write('function [ { return 0; }\\n')\nPY"
    grade, loads = await judge(bench, lines, redefines, **OUTPUT)
    assert (grade, loads["counts"]) == ("same-process", {"reader": 1, "judge": 1})


async def test_an_output_that_a_program_writes_anew_is_the_agents_under_any_name(bench: Any):
    lines = "python3 /workspace/ledger.py 3 4 5; mv /workspace/out /workspace/y; . /workspace/y"
    grade, loads = await judge(bench, lines, **OUTPUT)
    assert (grade, loads["counts"]) == ("same-process", {"judge": 1})


async def test_nothing_is_observed_where_no_file_of_the_agents_is_in_the_scripts_sandbox(bench: Any):
    grade, loads = await judge(bench, "python3 /workspace/ledger.py 3 4", programs=["/workspace/ledger.py"])
    assert (grade, loads) == ("separate", {})


BESIDE = {
    "its program": ("python3 /workspace/ledger.py 3", "same-user", ("agent", "open", "python3.11")),
    "its shell script": ("sh -e /workspace/run.sh", "same-user", ("agent", "open", "dash")),
    "an import": ("cd /workspace; python3 -c 'import ledger'", "same-process", ("judge", "open", "python3.11")),
    "an import by a test": ("python3 /tests/check.py", "same-process", ("judge", "open", "python3.11")),
    "under another name": ("mv /workspace/out /workspace/z; . /workspace/z", "same-process", ("judge", "open", "bash")),
    "by a hard link": ("ln /workspace/out /workspace/z; . /workspace/z", "same-process", ("judge", "open", "bash")),
    "by a link": ("ln -s /workspace/out /tmp/z; . /tmp/z", "same-process", ("judge", "open", "bash")),
    "its own bash": ("/workspace/cat -c true", "same-user", ("agent", "exec", "bash")),
    "the shell becomes it": ("(sleep 0); exec /workspace/cat -c true", "same-process", ("judge", "exec", "bash")),
}


@pytest.mark.parametrize("name", draw_sample([*BESIDE], 5))
async def test_a_script_beside_what_it_judges_is_no_more_than_what_its_processes_load(bench: Any, name: str):
    lines, grade, load = BESIDE[name]
    bench.files = {"tests/check.py": "import sys\nsys.path.insert(0, '/workspace')\nimport ledger\n"}
    seen, loads = await judge(bench, lines, f"{WRITES}; cp /bin/bash cat")
    assert seen == grade, loads
    assert loads["loads"][0]["role"] == load[0]
    assert {one[:2] for one in roles(loads)} == {load[:2]} or load in roles(loads)


async def test_a_link_to_an_interpreter_makes_it_no_program_of_the_agents(bench: Any):
    link = "ln -s $(readlink -f /opt/assay/bin/python3.11) python; ln -s /bin/cat other"
    grade, loads = await judge(bench, "python3 -c 'open(\"/workspace/out\")'", f"{WRITES}; {link}")
    assert (grade, loads["counts"]) == ("same-process", {"judge": 1})


async def test_taint_passes_to_children_for_good(bench: Any):
    grade, loads = await judge(bench, "sh /workspace/run.sh", f"{WRITES}; echo '(cat out; true)' > run.sh")
    assert (grade, set(loads["counts"])) == ("same-user", {"agent"})
    assert ("agent", "open", "cat") in roles(loads)
    first, *others = loads["tainted"]
    assert first["by"] == "open"
    assert {one["by"] for one in others} == {"descent"}
    assert {one["parent"] for one in others} <= {one["pid"] for one in loads["tainted"]}


RACES = """
import ctypes, os, threading
path = ctypes.create_string_buffer(b"/workspace/out", 32)
libc = ctypes.CDLL(None, use_errno=True)
def turn():
    for number in range(20000):
        path.value = b"/usr/bin/cat" if number % 2 else b"/workspace/out"
racing = threading.Thread(target=turn); racing.start()
for _ in range(300):
    fd = libc.open(path, os.O_RDONLY)
    if fd >= 0: os.close(fd)
racing.join()
os.execv("/bin/cat", ["cat", "/workspace/out"])
"""


async def test_a_raced_path_raises_nothing(bench: Any):
    grade, loads = await judge(
        bench, "python3 /workspace/ledger.py", f"cat > ledger.py <<'PY'\n{RACES}PY\n{WRITES[-60:]}"
    )
    assert grade == "same-user"
    assert {one["role"] for one in loads["loads"]} == {"agent"}
    assert len(loads["tainted"]) == 1


async def test_without_notification_what_hangs_on_it_is_unknown_and_the_rest_as_it_was(
    bench: Any, monkeypatch: pytest.MonkeyPatch
):
    async def observe_nothing(*_: object) -> LoadFacts:
        return LoadFacts(problem="the kernel gives no notification of calls")

    monkeypatch.setattr(InitSession, "loads", observe_nothing)
    assert (await judge(bench, "cat /workspace/out", **OUTPUT))[0] == "unknown"
    bench.files = {}
    assert (await judge(bench, "python3 /workspace/ledger.py 3"))[0] == "same-user"


def first_process_of_script(launcher: int) -> int:
    """Returns the host's id of the first process of the launcher's sandbox in which a script runs."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "status").read_text().split("PPid:")[1].split()[0])
            above = int(Path(f"/proc/{parent}/status").read_text().split("PPid:")[1].split()[0])
            if above == launcher and b"/tests/test.sh" in (place / "cmdline").read_bytes():
                return parent
        except OSError:
            continue
    return 0


async def test_a_supervisor_that_is_killed_leaves_no_verdict_on_the_agent(bench: Any):
    judged = asyncio.ensure_future(
        bench.judge(
            "true", "script", script=SCRIPT, interpreter=["/bin/bash"], timeout_s=30, outputs=["/workspace/out"]
        )
    )
    bench.files = {SCRIPT: "#!/bin/bash\necho 1 > /logs/verifier/reward.txt; sleep 60\n"}
    launcher = (await bench.backend.launcher())._pid
    while not (pid := first_process_of_script(launcher)):
        await asyncio.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    verdict = (await judged).verdict
    assert (verdict.status, verdict.separation) == ("error", "unknown")
