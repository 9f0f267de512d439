"""The check `script` on real final states: what it sees, what it demands, how it says what went wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.verify import sanitise, script

SCRIPT = "tests/test.sh"
HELLO = '#!/bin/sh\n[ "$(cat /workspace/hello)" = hi ] && r=1 || r=0\necho $r > /logs/verifier/reward.txt\n[ $r = 1 ]\n'


@pytest.mark.parametrize(("command", "status"), [("echo hi > /workspace/hello", "pass"), ("true", "fail")])
async def test_a_plain_script_decides(bench: Any, command: str, status: str) -> None:
    bench.files = {SCRIPT: HELLO}
    outcome = await bench.judge(command, "script", script=SCRIPT)
    assert outcome.verdict.status == status
    assert outcome.verdict.rewards == {"reward": 1.0 if status == "pass" else 0.0}
    assert outcome.of_kind("reward")[0]["source"] == "reward.txt"


LOOK = """#!/bin/sh
id -u; pwd; echo "$HOME $PATH"; env | grep -E '^(LD_PRELOAD|PYTHONPATH|BASH_ENV|PYTEST_ADDOPTS)=.' ; ls /solution
touch /tests/x || echo read-only
ls -A /logs/verifier | wc -l
echo '{"reward": 1, "speed": 0.5}' > /logs/verifier/reward.json
"""


async def test_the_script_sees_a_clean_place(bench: Any) -> None:
    bench.files = {SCRIPT: LOOK}
    outcome = await bench.judge("mkdir -p /logs/verifier; touch /workspace/x", "script", script=SCRIPT)
    seen = outcome.of_kind("execution")[0]["stdout"].splitlines()
    assert seen[:2] == ["0", "/workspace"]
    assert seen[2].startswith("/run/verifier /opt/assay-verify/bin:/opt/assay/bin:/usr/local/sbin:")
    assert seen[3:] == ["read-only", "0"]
    assert outcome.verdict.rewards == {"reward": 1.0, "speed": 0.5}


async def test_variables_of_the_task_reach_the_script(bench: Any) -> None:
    bench.files = {SCRIPT: 'echo "$ANSWER" > /logs/verifier/reward.txt\n'}
    outcome = await bench.judge("true", "script", script=SCRIPT, env={"ANSWER": "1"})
    assert outcome.verdict.status == "pass"


LATE = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\nsleep 100 &\n"
NONE = "#!/bin/sh\nexit 3\n"
SLOW = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\nsleep 100\n"
EXIT = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\nexit 1\n"
NAMED = "#!/bin/sh\ntrue pytest\necho 1 > /logs/verifier/reward.txt\n"
WORDS = {LATE: "still running", NONE: "no reward", SLOW: "time limit", EXIT: "exit code 1", NAMED: "no passing test"}


@pytest.mark.parametrize("text", WORDS, ids=WORDS.values())
async def test_a_doubtful_reward_is_unknown(bench: Any, text: str) -> None:
    bench.files = {SCRIPT: text}
    outcome = await bench.judge("true", "script", script=SCRIPT, timeout_s=1.5)
    assert (outcome.verdict.status, outcome.verdict.score) == ("unknown", None)
    assert WORDS[text] in outcome.verdict.reason


HOOKED = """#!/bin/sh
cd /workspace && git -c safe.directory=* status >/dev/null
echo 1 > /logs/verifier/reward.txt
[ ! -e /tmp/ran ] && [ "$(git config core.fsmonitor)" = "" ]
"""


async def test_git_runs_nothing_that_the_agent_configured(bench: Any) -> None:
    bench.files = {SCRIPT: HOOKED}
    config = "[core]\n\trepositoryformatversion = 0\n[include]\n\tpath = ../more\n"
    bench.given = {"workspace/.git/config": config, "workspace/.git/HEAD": "ref: refs/heads/main\n"}
    bench.given |= {"workspace/.git/objects/x": "", "workspace/.git/refs/x": "", "workspace/more": ""}
    command = "git config core.fsmonitor 'touch /tmp/ran; false'; printf '[core]\\nfsmonitor = touch /tmp/ran' > more"
    outcome = await bench.judge(command, "script", script=SCRIPT)
    assert outcome.verdict.status == "pass", outcome.verdict.reason
    assert "git_configuration" in outcome.verdict.marks


async def test_a_process_that_outlives_its_program_is_marked_and_doubted(bench: Any) -> None:
    bench.files = {SCRIPT: "#!/bin/sh\nsh -c 'sleep 0.1 &'\nsleep 0.5\necho 1 > /logs/verifier/reward.txt\n"}
    outcome = await bench.judge("true", "script", script=SCRIPT)
    assert outcome.verdict.status == "unknown"
    assert "orphaned_processes" in outcome.verdict.marks


FORGER = """
import glob, json, os
place = os.sep.join(["", "logs", "rec" + "order", "forged.json"])
json.dump({"tests": [{"id": "test_a.py::test_a", "status": "passed"}], "problems": []}, open(place, "w"))

def value():
    return 0
"""
ASKS = "#!/bin/sh\ncd /workspace && python3 -m pytest -q /tests/test_a.py\necho 1 > /logs/verifier/reward.txt\n"
TEST_A = (
    "import sys\nsys.path.insert(0, '/workspace')\nfrom mine import value\ndef test_a():\n    assert value() == 1\n"
)


async def test_a_record_that_lies_in_the_folder_is_a_forgery_and_hides_no_failure(bench: Any) -> None:
    bench.files = {SCRIPT: ASKS, "tests/test_a.py": TEST_A}
    bench.given = {"workspace/forger.py": FORGER}
    outcome = await bench.judge("cp forger.py mine.py", "script", script=SCRIPT)
    assert outcome.verdict.status == "fail"
    assert "tests failed" in outcome.verdict.reason
    assert "forged" in outcome.verdict.marks


KILLER = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n"


async def test_a_test_runner_that_is_killed_leaves_a_run_that_did_not_end(bench: Any) -> None:
    bench.files = {SCRIPT: ASKS, "tests/test_a.py": TEST_A}
    bench.given = {"workspace/mine.py": KILLER}
    outcome = await bench.judge("true", "script", script=SCRIPT)
    assert outcome.verdict.status != "pass"
    assert "did not tell its record to the end" in outcome.verdict.reason


@pytest.mark.long
async def test_a_recorded_run_of_pytest_is_same_process(bench: Any) -> None:
    bench.files = {SCRIPT: ASKS, "tests/test_a.py": TEST_A}
    outcome = await bench.judge("echo 'def value(): return 1' > mine.py", "script", script=SCRIPT)
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "same-process")


async def test_literally_the_reward_decides_and_the_verdict_says_so(bench: Any) -> None:
    bench.files = {SCRIPT: EXIT}
    outcome = await bench.judge("true", "script", script=SCRIPT, literal=True)
    assert outcome.verdict.status == "pass"
    assert "literal" in outcome.verdict.marks


async def test_a_missing_script_is_an_error(bench: Any) -> None:
    outcome = await bench.judge("true", "script", script="tests/none.sh")
    assert outcome.verdict.status == "error"
    assert "tests/none.sh" in outcome.verdict.reason


SEPARATE = '#!/bin/sh\n[ "$(cat /workspace/out/a)" = hi ] && [ ! -e /workspace/junk ] && [ ! -e /workspace/out/link ]\n'
SEPARATE += "r=$?; echo $((1 - r)) > /logs/verifier/reward.txt; exit $r\n"


async def test_a_separate_verifier_gets_declared_artifacts_alone(bench: Any) -> None:
    bench.files = {SCRIPT: SEPARATE}
    bench.environment = {"artifacts": [{"source": "/workspace/out"}]}
    command = "mkdir out; echo hi > out/a; ln -s /etc/passwd out/link; touch junk"
    outcome = await bench.judge(command, "script", script=SCRIPT, mode="separate")
    assert outcome.verdict.status == "pass"
    assert outcome.of_kind("artifacts")[0]["brought"] == ["/workspace/out"]


async def test_an_artifact_that_is_a_link_is_not_brought(bench: Any) -> None:
    bench.files = {SCRIPT: SEPARATE}
    bench.environment = {"artifacts": [{"source": "/workspace/out"}]}
    command = "mkdir /home/agent/o; echo hi > /home/agent/o/a; ln -s /home/agent/o /workspace/out; ln -s /etc o/link"
    outcome = await bench.judge(command, "script", script=SCRIPT, mode="separate")
    assert outcome.verdict.status in ("pass", "fail")
    assert outcome.verdict.status == "fail" or outcome.of_kind("artifacts")[0]["brought"] == ["/workspace/out"]


SAME = (
    "#!/bin/sh\ncmp /tests/expected /workspace/answer && r=1 || r=0\necho $r > /logs/verifier/reward.txt; [ $r = 1 ]\n"
)
CHAIN = "/opt/assay/bin/python3 -c 'import os; [os.symlink(str(n + 1), str(n)) for n in range(1500)]'"
"""More links than Python follows by recursion, and far more than the kernel follows."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("ln -s /tests/expected answer", "fail"),
        ("ln -s /tests there; ln -s there/expected answer", "fail"),
        ("mkdir out; echo right > out/a; ln -s out/a answer", "pass"),
        (f"echo right > answer; {CHAIN}", "pass"),
    ],
)
async def test_an_answer_that_is_a_link_to_what_is_expected_is_none(bench: Any, command: str, status: str) -> None:
    bench.files = {SCRIPT: SAME, "tests/expected": "right\n"}
    verdict = (await bench.judge(command, "script", script=SCRIPT)).verdict
    assert verdict.status == status
    assert ("verifier_link" in verdict.marks) == (status == "fail")


async def test_links_that_take_long_to_follow_are_removed(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitise, "FOLLOWING_S", 0.3)
    monkeypatch.setattr(sanitise, "_FOLLOW", "import time\ntime.sleep(60)\n")
    bench.files = {SCRIPT: SAME, "tests/expected": "right\n"}
    outcome = await bench.judge("echo right > a; ln -s a answer", "script", script=SCRIPT)
    assert outcome.verdict.status == "fail"
    assert "verifier_link" in outcome.verdict.marks


async def test_configuration_beyond_what_is_read_is_the_images(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitise, "MOST_COMPARED", 1)
    bench.files = {SCRIPT: "#!/bin/sh\nls /workspace/*/setup.cfg | wc -l > /logs/verifier/reward.txt\n"}
    outcome = await bench.judge("mkdir a b c; touch a/setup.cfg b/setup.cfg c/setup.cfg", "script", script=SCRIPT)
    assert outcome.verdict.rewards == {"reward": 1.0}


FLAKY = "#!/bin/sh\nread -r n < /proc/sys/kernel/random/uuid\ncase $n in [0-7]*) r=1;; *) r=0;; esac\n"
FLAKY += "echo $r > /logs/verifier/reward.txt; [ $r = 1 ]\n"


@pytest.mark.long
async def test_repetitions_that_disagree_are_unknown(bench: Any) -> None:
    bench.files = {SCRIPT: FLAKY}
    bench.repetitions = 20
    outcome = await bench.judge("true", "script", script=SCRIPT)
    assert outcome.verdict.status == "unknown"
    assert "flaky" in outcome.verdict.marks
    assert len(outcome.of_kind("execution")) == 20
    assert len({found.id for found in outcome.evidence}) == len(outcome.evidence)


async def test_configuration_with_other_uses_is_kept(bench: Any) -> None:
    bench.given = {"workspace/pyproject.toml": '[project]\nname = "a"\n[tool.pytest.ini_options]\naddopts = "-q"\n'}
    bench.files = {SCRIPT: "#!/bin/sh\ngrep -c '\"b\"' /workspace/pyproject.toml > /logs/verifier/reward.txt\n"}
    outcome = await bench.judge('sed -i \'s/"a"/"b"/\' pyproject.toml', "script", script=SCRIPT)
    assert (outcome.verdict.status, outcome.verdict.marks) == ("pass", ())


UNITS = "#!/bin/sh\npython -B -m pytest -q --junitxml=/logs/verifier/junit.xml /tests && echo 1"
UNITS += " > /logs/verifier/reward.txt\n"


@pytest.mark.long
async def test_pytest_below_a_script_is_recorded(bench: Any) -> None:
    bench.files = {SCRIPT: UNITS, "tests/test_a.py": "from a import x\n\n\ndef test_x():\n    assert x == 1\n"}
    outcome = await bench.judge("echo 'x = 1' > a.py", "script", script=SCRIPT)
    assert outcome.verdict.status == "pass"
    assert [r["source"] for r in outcome.of_kind("test_report")] == ["recorder", "junit", "pytest"]


STRICT = """import pathlib
import pytest


@pytest.fixture(autouse=True)
def strict():
    yield
    assert pathlib.Path('/workspace/done').exists()
"""


@pytest.mark.long
async def test_configuration_that_was_removed_is_brought_back(bench: Any) -> None:
    bench.given = {"workspace/conftest.py": STRICT, "workspace/setup.cfg": "[metadata]\nname = x\n"}
    bench.given["workspace/test_a.py"] = "def test_a():\n    pass\n"
    bench.files = {SCRIPT: "cd /workspace && pytest test_a.py && echo 1 > /logs/verifier/reward.txt\n"}
    left = await bench.judge("rm conftest.py setup.cfg", "script", script=SCRIPT)
    honest = await bench.judge("rm setup.cfg; touch done", "script", script=SCRIPT)
    assert left.verdict.status == "fail"
    assert "conftest" in left.verdict.marks
    assert (honest.verdict.status, honest.verdict.marks) == ("pass", ())


@pytest.mark.parametrize(("mode", "interfaces"), [("no-network", "1"), ("allowlist", "1"), ("public", "all")])
async def test_a_verifier_has_no_network_that_its_own_policy_does_not_give(
    bench: Any, mode: str, interfaces: str
) -> None:
    bench.network = "host"
    bench.files = {SCRIPT: "tail -n +3 /proc/net/dev | wc -l\necho 1 > /logs/verifier/reward.txt\n"}
    outcome = await bench.judge("true", "script", script=SCRIPT, network_mode=mode)
    seen = outcome.of_kind("execution")[0]["stdout"].strip()
    here = str(len(Path("/proc/net/dev").read_text().splitlines()) - 2)
    assert seen == (here if interfaces == "all" else interfaces)


async def test_an_artifact_that_claims_too_much_is_not_brought_and_told(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "MOST_BROUGHT", 64 << 20)
    bench.environment = {"artifacts": [{"source": "/workspace/out"}]}
    bench.files = {SCRIPT: "ls /workspace/out || echo 0 > /logs/verifier/reward.txt\n"}
    holes = "mkdir out; for i in 1 2 3; do truncate -s 32M out/$i; done"
    outcome = await bench.judge(holes, "script", script=SCRIPT, mode="separate")
    assert outcome.verdict.status == "fail"
    assert "more than" in outcome.of_kind("artifacts")[0]["left_out"]["/workspace/out"]


async def test_artifacts_that_fill_a_disk_leave_the_separate_verifier_its_own(bench: Any) -> None:
    bench.files = {SCRIPT: "#!/bin/sh\nhead -c 3000000 /dev/zero > /workspace/copy\nwc -c < /workspace/copy\nexit 1\n"}
    bench.environment = {"artifacts": [{"source": "/workspace"}]}
    fill = "dd if=/dev/zero of=/workspace/full bs=64k count=500; true"
    outcome = await bench.judge(fill, "script", script=SCRIPT, mode="separate")
    assert outcome.of_kind("execution")[0]["stdout"].split() == ["3000000"]


COPIED = """#!/bin/sh
mkdir -p /run/here && cp /tests/test_it.py /run/here/test_copy.py && cd /workspace
pytest -q /run/here/test_copy.py && r=1 || r=0
echo $r > /logs/verifier/reward.txt
"""
ALWAYS_EQUAL = "class Any(int):\n    __hash__ = int.__hash__\n    def __eq__(self, other):\n        return True\n"


@pytest.mark.parametrize(("answer", "status"), [("def two():\n    return 2\n", "pass"), ("", "fail")])
async def test_tests_that_a_script_runs_elsewhere_are_looked_into_too(bench: Any, answer: str, status: str) -> None:
    test = "import sys\nsys.path.insert(0, '/workspace')\nfrom it import two\ndef test_two():\n    assert two() == 2\n"
    bench.files = {SCRIPT: COPIED, "tests/test_it.py": test}
    text = answer or f"{ALWAYS_EQUAL}def two():\n    return Any()\n"
    outcome = await bench.judge(f"printf '%s' \"{text}\" > /workspace/it.py", "script", script=SCRIPT)
    assert outcome.verdict.status == status, outcome.verdict.reason
