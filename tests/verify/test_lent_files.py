"""Files that a script lends to judged programs are confirmed by a control run, which itself can fail or not end."""

from __future__ import annotations

from typing import Any, cast

import pytest

from assay.environments.interface import ExecResult, Workspace, WorkspaceSpec
from assay.errors import EnvironmentFailure
from assay.verdicts import AGENT_MADE_UNJUDGEABLE
from assay.verify import script as script_check
from assay.verify.lent_files import LentFiles
from assay.verify.named_inputs import SHELL_FILE
from tests.verify.test_judged_programs import ASKS, CHOOSES, judge, typed

WRITES_REWARD = "echo $score > /logs/verifier/reward.txt\n"
SHOUTS = "import sys\ntext = open(sys.argv[-1]).read().strip()\nprint(text + '!')\n"


def grade(outcome: Any) -> tuple[Any, str]:
    return outcome.verdict.rewards.get("reward"), outcome.verdict.separation


async def test_a_partial_reward_is_confirmed_too(bench: Any) -> None:
    bench.files = {"tests/expected": "48151623"}
    script = (ASKS % '"$name"').replace("echo 1 >", "echo 0.5 >")
    outcome = await judge(bench, script, typed(CHOOSES % ([(1, b"/tests/expected")], "")))
    assert grade(outcome) == (0.5, "same-process")


TEMPORARY = {
    "one folder each": """for i in 1 2 3; do
  d=$(mktemp -d); echo $i > $d/in; o=$(mktemp); python3 /workspace/ledger.py $d/in > $o; grep -qx "$i!" $o || score=0
done""",
    "folders as arguments": """for i in 1 2; do
  d=$(mktemp -d); echo $i > $d/in; (cd $d; [ "$(python3 /workspace/ledger.py $d in)" = "$i!" ]) || score=0
done""",
    "one folder of outputs": """d=$(mktemp -d); cd "$d"; echo 7 > in; python3 /workspace/ledger.py in > out
[ "$(python3 /workspace/ledger.py "$d/out")" = "7!!" ] || score=0""",
    "made and removed": """for i in 1 2; do
  t=$(mktemp); echo $i > $t; [ "$(python3 /workspace/ledger.py $t)" = "$i!" ] || score=0; rm $t
done""",
}


@pytest.mark.parametrize("form", TEMPORARY)
async def test_temporary_files_that_a_script_lends_itself_keep_the_grade(bench: Any, form: str) -> None:
    outcome = await judge(bench, f"#!/bin/bash\nscore=1\n{TEMPORARY[form]}\n{WRITES_REWARD}", typed(SHOUTS))
    assert grade(outcome) == (1.0, "separate"), outcome.verdict.reason


SELECTS = """
import sys
if sys.argv[1] == "encode":
    print("/tmp/tmp*")
else:
    print(max((open(name).read() for name in sys.argv[2:]), key=len), end="")
"""
HIDES = """#!/bin/bash
score=0
expected=$(mktemp); %s echo 48151623 > $expected
given=%s; echo 5 > $given
coded=$(python3 /workspace/ledger.py encode $given)
[ "$(python3 /workspace/ledger.py decode $coded)" = 48151623 ] && score=1
%s
"""
HIDDEN = {
    "two files": ("", "$(mktemp)", ""),
    "a file and a later one": ("", "/tmp/given", "rm $expected; late=$(mktemp); python3 /workspace/ledger.py 1 $late"),
    "a folder": ("rm $expected; mkdir $expected; expected=$expected/in;", "$(mktemp -d)/in", ""),
}


@pytest.mark.parametrize("form", HIDDEN)
async def test_a_pattern_that_a_program_prints_confirms_no_temporary_file(bench: Any, form: str) -> None:
    code = SELECTS.replace("/tmp/tmp*", "/tmp/tmp*/in") if form == "a folder" else SELECTS
    outcome = await judge(bench, HIDES % HIDDEN[form] + WRITES_REWARD, typed(code))
    assert grade(outcome) == (1.0, "same-process"), outcome.of_kind("execution")


class OneFile:
    """A sandbox whose files all have one content."""

    names = "tmp.aaaaaa\ntmp.bbbbbb\n"
    exit_code = 0

    async def read(self, path: str, *, limit: int) -> bytes:
        return b"7"

    async def exec(self, command: list[str], **_: Any) -> ExecResult:
        return ExecResult(self.exit_code, self.names, "", 0.0)


@pytest.mark.parametrize(
    ("commands", "confirmed"),
    [
        (["run /tmp/tmp.cccccc"], True),
        (["run /tmp/tmp.cccccc", "run /tmp/tmp.dddddd"], False),
        (["get /tmp/tmp.cccccc"], False),
        (["run --with /tmp/tmp.cccccc"], False),
        (["run /tmp/tmp.cccccc/in"], False),
    ],
)
async def test_equal_content_confirms_a_file_at_the_same_place_once(commands: list[str], confirmed: bool) -> None:
    first, control = LentFiles(cast(Any, OneFile())), LentFiles(cast(Any, OneFile()))
    for files, lines in ((control, ["run /tmp/tmp.aaaaaa"]), (first, commands)):
        for line in lines:
            await files.add({line.split()[-1]}, line.split())
    assert (first.confirmed_by(control, ended=True) == first.paths()) is confirmed


@pytest.mark.parametrize(("exit_code", "confirmed"), [(0, True), (127, False), (-9, False)])
async def test_a_single_temporary_name_counts_only_where_names_can_be_listed(exit_code: int, confirmed: bool) -> None:
    sandbox = OneFile()
    sandbox.names, sandbox.exit_code = "", exit_code
    first, control = LentFiles(cast(Any, sandbox)), LentFiles(cast(Any, sandbox))
    await control.add({"/tmp/tmp.aaaaaa"}, ["run", "/tmp/tmp.aaaaaa"])
    await first.add({"/tmp/tmp.bbbbbb"}, ["run", "--other", "/tmp/tmp.bbbbbb"])
    assert first.confirmed_by(control, ended=False) == set()
    assert (first.confirmed_by(control, ended=True) == first.paths()) is confirmed


CHECK_PY = """
import json, subprocess, sys
def run(*words):
    return subprocess.run(["python3", "/workspace/ledger.py", *words], capture_output=True, text=True).stdout.strip()
for case in json.load(open("/tests/cases.json")):
    if run(case["file"]) != case["want"]:
        sys.exit(1)
"""
CASES = '[{"file": "/tests/data/a.csv", "want": "a!"}, {"file": "/tests/data/b.csv", "want": "b!"}]'


@pytest.mark.parametrize(("inputs", "separation"), [([], "same-process"), (["/tests/data"], "separate")])
async def test_declared_inputs_below_tests_are_named_by_the_task(bench: Any, inputs: list[str], separation: str):
    bench.files = {"tests/check.py": CHECK_PY, "tests/cases.json": CASES}
    bench.files |= {"tests/data/a.csv": "a\n", "tests/data/b.csv": "b\n"}
    script = "#!/bin/bash\nscore=0\npython3 /tests/check.py && score=1\n" + WRITES_REWARD
    outcome = await judge(bench, script, typed(SHOUTS), inputs=inputs)
    assert grade(outcome) == (1.0, separation), outcome.of_kind("execution")
    assert ("(`inputs` declares" in outcome.verdict.reason) is (not inputs)


LENDS_LATE = "#!/bin/bash\nscore=1\npython3 /workspace/ledger.py /tests/a; python3 /workspace/ledger.py /tests/b\n"


async def test_a_control_run_ends_soon_after_what_the_script_took(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    async def find(*_: Any, timeout_s: float, **__: Any) -> tuple[str, ...]:
        limits.append(timeout_s)
        return ()

    monkeypatch.setattr(script_check, "find_unconfirmed", find)
    bench.files = {"tests/a": "a", "tests/b": "b"}
    await judge(bench, LENDS_LATE + WRITES_REWARD, typed(SHOUTS), timeout_s=300)
    assert len(limits) == 1
    assert 10 <= limits[0] < 60


async def test_a_control_run_that_cannot_be_opened_confirms_nothing(bench: Any, monkeypatch: pytest.MonkeyPatch):
    opens = bench.backend.open

    async def refuse(spec: WorkspaceSpec, **more: Any) -> Workspace:
        if spec.env.get("BASH_ENV") == SHELL_FILE:
            raise EnvironmentFailure("no sandbox is left")
        workspace: Workspace = await opens(spec, **more)
        return workspace

    monkeypatch.setattr(bench.backend, "open", refuse)
    bench.files = {"tests/a": "a", "tests/b": "b"}
    outcome = await judge(bench, LENDS_LATE + WRITES_REWARD, typed(SHOUTS))
    assert (outcome.verdict.status, *grade(outcome)) == ("pass", 1.0, "same-process"), outcome.verdict.reason
    assert outcome.of_kind("separation")[0]["unconfirmed_inputs"] == ("/tests/b",)


ORPHAN = "(sleep 0.1 &) ; sleep 0.4\n"


@pytest.mark.parametrize(("reads", "status"), [("cat", "pass"), (".", "unknown")])
async def test_orphans_are_the_scripts_own_where_no_code_is_beside_it(bench: Any, reads: str, status: str) -> None:
    script = f'#!/bin/bash\nscore=0\n[ "$({reads} /workspace/out.txt)" = 7 ] && score=1\n{ORPHAN}{WRITES_REWARD}'
    outcome = await judge(bench, script, "echo 'echo 7' > out.txt", outputs=["/workspace/out.txt"], programs=[])
    if reads == "cat":
        outcome = await judge(bench, script, "echo 7 > out.txt", outputs=["/workspace/out.txt"], programs=[])
    assert (outcome.verdict.status, "orphaned_processes" in outcome.verdict.marks) == (status, status == "unknown")


TWO_REWARDS = """#!/bin/bash
echo 0 > /logs/verifier/reward.txt
[ "$(python3 /workspace/ledger.py 3 4)" = 7 ] && echo '{"reward": 1}' > /logs/verifier/reward.json
true
"""


@pytest.mark.parametrize(("programs", "status"), [(["/workspace/ledger.py"], "pass"), ([], "fail")])
async def test_two_rewards_are_the_scripts_own_where_no_program_can_write_one(bench: Any, programs: Any, status: str):
    outcome = await judge(bench, TWO_REWARDS, typed("print(7)"), programs=programs)
    assert (outcome.verdict.status, outcome.verdict.rewards) == (status, {"reward": 1.0})
    assert "reward.json says 1 and reward.txt says 0" in outcome.verdict.reason
    assert ("reward_problem" in outcome.verdict.marks) is (status == "fail")


async def test_a_program_that_the_script_ends_by_a_limit_of_its_own_is_cut_short(bench: Any) -> None:
    script = "#!/bin/bash\ntimeout 1 python3 /workspace/ledger.py\necho 0 > /logs/verifier/reward.txt\n"
    outcome = await judge(bench, script, typed("import time\ntime.sleep(9)"))
    assert outcome.of_kind("judged_programs")[0]["cut_short"] == 1
    assert outcome.verdict.status == "fail"


async def test_a_reward_that_printed_text_spoils_is_judged_beside_the_given_state(bench: Any) -> None:
    script = "#!/bin/bash\necho 0 > /logs/verifier/reward.txt\n"
    script += 'echo "{\\"reward\\": $(python3 /workspace/ledger.py)}" > /logs/verifier/reward.json\n'
    bench.given = {"workspace/ledger.py": "print(0)\n"}
    outcome = await judge(bench, script, typed("print('many')"))
    assert (outcome.verdict.status, AGENT_MADE_UNJUDGEABLE in outcome.verdict.marks) == ("fail", True)
    assert len(outcome.of_kind("control")) == 2
