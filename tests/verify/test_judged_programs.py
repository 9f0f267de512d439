"""Scripts whose judged programs run in a sandbox of their own."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from assay.environments.interface import PipedExec
from assay.errors import TaskError
from assay.records import SeparationFacts
from assay.verdicts import grade_of
from assay.verify.judged_programs import JudgedPrograms, require_data_path
from assay.verify.transcript import Transcript
from tests.sampling import draw_sample

SCRIPT = "tests/test.sh"
SUM = "import sys\nprint(sum(int(x) for x in sys.argv[1:]))\n"
DIRECT = """#!/bin/bash
score=1
[ "$(python3 /workspace/ledger.py 3 4 5)" = 12 ] || score=0
[ "$(python3 /workspace/ledger.py 10 -20)" = -10 ] || score=0
echo $score > /logs/verifier/reward.txt
[ $score = 1 ]
"""


def typed(code: str) -> str:
    return f"cat > /workspace/ledger.py <<'PY'\n{code}\nPY\n"


async def judge(bench: Any, script: str, command: str, **parameters: Any) -> Any:
    bench.files = {**bench.files, SCRIPT: script}
    usual = {"programs": ["/workspace/ledger.py"], "timeout_s": 20, "interpreter": ["/bin/bash"]}
    return await bench.judge(command, "script", script=SCRIPT, **{**usual, **parameters})


@pytest.mark.parametrize(("code", "status"), [(SUM, "pass"), ("print(0)", "fail"), ("raise SystemExit(3)", "fail")])
async def test_an_untouched_script_is_separate_where_the_task_names_its_program(bench: Any, code: str, status: str):
    outcome = await judge(bench, DIRECT, typed(code))
    assert (outcome.verdict.status, outcome.verdict.separation) == (status, "separate"), outcome.verdict.reason
    assert grade_of(msgspec.convert(outcome.of_kind("separation")[0], SeparationFacts)) == "separate"
    assert len(outcome.of_kind("judged_programs")[0]["programs"]) == 2


async def test_the_same_script_without_a_named_program_is_same_user(bench: Any):
    outcome = await judge(bench, DIRECT, typed(SUM), programs=[])
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "same-user")


SEES = """
import glob, os
own = ("/tests/test.sh", "/logs/verifier/reward.txt", "/run/verifier/judge", "/opt/assay-verify")
seen = [p for p in own if os.path.exists(p)]
names = [open(p, "rb").read() for p in glob.glob("/proc/[0-9]*/cmdline")]
fds = [os.readlink(f"/proc/self/fd/{n}").partition(":")[0] for n in os.listdir("/proc/self/fd")[:3]]
variables = [os.environ.get(name) for name in ("TOKEN", "OTHER", "MODE")]
print(seen, any(b"test.sh" in name for name in names), sorted(fds), variables)
"""


async def test_a_judged_program_sees_nothing_of_the_script(bench: Any):
    script = "#!/bin/bash\necho 0 > /logs/verifier/reward.txt\nMODE=fast OTHER=x python3 /workspace/ledger.py\n"
    outcome = await judge(bench, script, typed(SEES), env={"TOKEN": "secret"}, variables=["MODE"])
    assert outcome.of_kind("execution")[0]["stdout"].strip() == "[] False ['pipe', 'pipe', 'pipe'] [None, None, 'fast']"
    assert outcome.of_kind("judged_programs")[0]["withheld_variables"] == ["OTHER"]


LEFT_BEHIND = """
import subprocess, sys
print(0)
code = "import time; time.sleep(0.3); open('/workspace/late', 'w').write('x')"
subprocess.Popen([sys.executable, "-c", code], stdin=-3, stdout=-3, stderr=-3, start_new_session=True)
"""


async def test_what_a_program_leaves_running_is_killed_before_the_script_goes_on(bench: Any):
    script = (
        "#!/bin/bash\npython3 /workspace/ledger.py; sleep 1; cat /workspace/late; echo 0 > /logs/verifier/reward.txt\n"
    )
    outcome = await judge(bench, script, typed(LEFT_BEHIND), outputs=["/workspace/late"])
    assert "No such file" in outcome.of_kind("execution")[0]["stderr"]
    assert not {"left_processes", "orphaned_processes"} & set(outcome.verdict.marks)


REWRITES = """
import subprocess, sys
print(0)
code = "import os, time; r = '/lo' 'gs/verifier/rew' 'ard.txt'; end = time.time() + 9\\n"
code += "while time.time() < end:\\n  if os.path.exists(r) and os.path.getsize(r): open(r, 'w').write('1'); break"
subprocess.Popen([sys.executable, "-S", "-c", code], stdin=-3, stdout=-3, stderr=-3)
"""


@pytest.mark.parametrize(("programs", "status"), [([], "unknown"), (["/workspace/ledger.py"], "fail")])
async def test_a_helper_that_rewrites_the_reward_gains_no_pass(bench: Any, programs: list[str], status: str):
    script = DIRECT.replace("[ $score = 1 ]", "sleep 1")
    outcome = await judge(bench, script, typed(REWRITES), programs=programs)
    assert outcome.verdict.rewards == {"reward": 0.0 if programs else 1.0}
    assert (outcome.verdict.status, outcome.verdict.separation) == (status, "separate" if programs else "same-user")


FILES = """#!/bin/bash
mkdir -p /workspace/in/deep && echo 5 > /workspace/in/deep/number && echo 6 > /tmp/number
assay-judge run -- sh -c 'cat ./in/deep/number /tmp/number - | tee out.txt; echo told >&2; exit 7' < /tests/more
echo "exit $?"; cat out.txt; assay-judge read out.txt; assay-judge read /absent; echo "read $?"
[ -x out.txt ] && echo executable; echo 1 > /logs/verifier/reward.txt
"""


async def test_files_streams_and_exit_status_cross_as_data(bench: Any):
    bench.files = {SCRIPT: FILES, "tests/more": "7\n"}
    outcome = await bench.judge(
        "true", "script", script=SCRIPT, interpreter=["/bin/bash"], outputs=["/workspace/out.txt"]
    )
    ran = outcome.of_kind("execution")[0]
    assert ran["stdout"].split("exit 7")[0].split() == ["5", "6", "7"], ran
    assert ran["stdout"].split("exit 7")[1].split() == ["5", "6", "7", "5", "6", "7", "read", "125"]
    assert "told" in ran["stderr"]
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "separate")


EXPECTS = """#!/bin/bash
echo 12 > /tmp/expected; echo 12 > /workspace/expected; echo 5 > /workspace/declared
[ "$(python3 /workspace/ledger.py /tests/named /tmp/given --file=./more)" = "$(cat /tmp/expected)" ]
"""
LOOKS = """
import glob, sys
names = [*glob.glob("/tmp/*"), *glob.glob("/tests/*"), *glob.glob("/workspace/*")]
print(sorted(n for n in names if n != "/workspace/ledger.py"), file=sys.stderr)
"""


async def test_a_program_finds_what_its_command_names_and_nothing_that_the_script_expects(bench: Any):
    script = EXPECTS.replace("#!/bin/bash\n", "#!/bin/bash\necho 1 > /tmp/given; echo 2 > more\n")
    bench.files = {"tests/named": "3\n", "tests/answers": "12\n", SCRIPT: script}
    parameters = {"programs": ["/workspace/ledger.py"], "inputs": ["/workspace/declared"]}
    outcome = await bench.judge(typed(LOOKS), "script", script=SCRIPT, interpreter=["/bin/bash"], **parameters)
    seen = ["/tests/named", "/tmp/given", "/workspace/declared", "/workspace/more"]
    assert outcome.of_kind("execution")[0]["stderr"].strip() == str(seen)


DATA = """#!/bin/bash
mkdir -p /workspace/lower && echo 12 > /workspace/lower/expected && echo 12 > /workspace/HELLO
cd /workspace && python3 /workspace/ledger.py "  Lower case " lower HELLO --text=HELLO
cd /tests
python3 /workspace/ledger.py 1 -2 3.5 1/2 cases HELLO ./more ../tests/named; echo 1 > /logs/verifier/reward.txt
"""


@pytest.mark.long
async def test_words_that_are_data_lend_nothing(bench: Any):
    """`prog 1 HELLO` is lent neither a folder `1` of cases, each with its answer, nor a file `HELLO`: only words that
    are spelt as paths lend."""
    answers = {f"tests/{name}/expected": "12\n" for name in ("1", "1/2", "cases", "more")}
    bench.files = {**answers, "tests/3.5": "12\n", "tests/HELLO": "12\n", "tests/named": "3\n", SCRIPT: DATA}
    parameters = {"programs": ["/workspace/ledger.py"], "interpreter": ["/bin/bash"]}
    outcome = await bench.judge(typed(LOOKS), "script", script=SCRIPT, **parameters)
    assert outcome.of_kind("execution")[0]["stderr"].splitlines() == ["[]", str(["/tests/more", "/tests/named"])]
    cited = outcome.of_kind("judged_programs")[0]
    assert cited["lent_files"] == ["/tests/more", "/tests/named"]
    here = {"/workspace/HELLO", "/workspace/lower"}
    assert set(cited["withheld_files"]) == here | {f"/tests/{name}" for name in ("1", "1/2", "3.5", "HELLO", "cases")}


ROUND_TRIP = """#!/bin/bash
score=1
same() { [ "$(python3 /workspace/ledger.py $1 /tests/case.$2)" = "$(cat /tests/case.$3)" ] || score=0; }
same encode txt enc; same decode enc txt; same decode enc txt
echo $score > /logs/verifier/reward.txt
"""
CODEC = """import codecs, sys
what, path = sys.argv[1:]
print(codecs.encode(open(path).read(), "rot13") if what == "encode" else %s)
"""


@pytest.mark.parametrize("decodes", ['codecs.decode(open(path).read(), "rot13")', 'open("/tests/case.txt").read()'])
async def test_a_file_that_was_lent_once_is_no_expected_answer_later(bench: Any, decodes: str):
    bench.files = {"tests/case.txt": "hello\n", "tests/case.enc": "uryyb\n", SCRIPT: ROUND_TRIP}
    bench.solution = typed(CODEC % 'codecs.decode(open(path).read(), "rot13")')
    outcome = await bench.judge(
        typed(CODEC % decodes),
        "script",
        script=SCRIPT,
        interpreter=["/bin/bash"],
        programs=["/workspace/ledger.py"],
    )
    assert outcome.verdict.rewards == {"reward": 1.0}
    assert outcome.verdict.separation == "same-process"
    difference = outcome.of_kind("separation")[0]["reference_difference"]
    assert "gives the content of /tests/case.txt, which an earlier command was lent" in difference


CHOOSES = """
import os, sys, time
if sys.argv[1:] == ["which"]:
    for fd, text in %r:
        os.write(fd, text)
        time.sleep(0.2)
    open("/workspace/out.txt", "w").write(%r)
else:
    print(sys.stdin.read() or open(sys.argv[2]).read())
"""
ASKS = """#!/bin/bash
name=$(python3 /workspace/ledger.py which)
[ "$(python3 /workspace/ledger.py get %s)" = 48151623 ] && echo 1 > /logs/verifier/reward.txt
"""
PRINTS = {
    "path": ('"$name"', [(1, b"/tests/expected")], ""),
    "relative": ('"/tests/$name"', [(1, b"./expected")], ""),
    "streams": ('"/tests/$name"', [(1, b"exp"), (2, b"x"), (1, b"ected")], ""),
    "glob": ("/tests/$name", [(1, b"exp?cted")], ""),
    "reversed": ('"/tests/$(echo "$name" | rev)"', [(1, b"detcepxe")], ""),
    "output": ('"/tests/$(cut -d, -f2 /workspace/out.txt)"', [], "a,expected"),
    "input": ('- < "/tests/$name"', [(1, b"expected")], ""),
}
"""The end of a command, the pieces that the program prints, and what it writes to its output."""


@pytest.mark.long
@pytest.mark.parametrize("form", draw_sample([*PRINTS], 2))
async def test_a_pass_is_not_separate_where_a_program_chose_which_file_it_was_lent(bench: Any, form: str):
    words, pieces, written = PRINTS[form]
    bench.files = {"tests/expected": "48151623", SCRIPT: ASKS % words}
    outputs = {"outputs": ["/workspace/out.txt"], "programs": ["/workspace/ledger.py"]}
    bench.solution = typed("print(48151623)")
    outcome = await bench.judge(
        typed(CHOOSES % (pieces, written)), "script", script=SCRIPT, interpreter=["/bin/bash"], **outputs
    )
    assert outcome.verdict.rewards == {"reward": 1.0}, outcome.of_kind("execution")
    assert outcome.verdict.separation == "same-process"
    assert "another text" in outcome.verdict.reason or "is not there" in outcome.verdict.reason


NAMES_CASES = {
    "glob": "for case in /tests/cases/*.in; do check $case; done",
    "glob-input": "for case in /tests/cases/*.in; do feed $case; done",
    "first-wrong": "set -e; for case in /tests/cases/*.in; do check $case || exit 1; [ $score = 1 ]; done",
    "list": "while read -r name; do check /tests/cases/$name.in; done < /tests/names",
    "names": "for name in one two; do check /tests/cases/$name.in; done",
    "temporary": "for case in /tests/cases/*.in; do new=$(mktemp); cp $case $new; check $new $case; done",
}
CHECK_CASES = """#!/bin/bash
score=1
check() { [ "$(python3 /workspace/ledger.py "$1")" = "$(cat "${2:-$1}")!" ] || score=0; }
feed() { [ "$(python3 /workspace/ledger.py /dev/stdin < "$1")" = "$(cat "$1")!" ] || score=0; }
python3 /workspace/ledger.py --help
%s
echo $score > /logs/verifier/reward.txt
"""
SHOUTS = """
import sys
if sys.argv[1] == "--help":
    print("usage: ledger.py FILE, such as /tests/cases/one.in or two in cases; reads names from FILE")
else:
    print(open(sys.argv[1]).read().strip() + "!")
"""


@pytest.mark.parametrize("form", draw_sample([*NAMES_CASES], 1))
async def test_files_that_a_script_names_itself_are_lent_whatever_a_program_prints(bench: Any, form: str):
    bench.files = {"tests/cases/one.in": "a\n", "tests/cases/two.in": "b\n", "tests/names": "one\ntwo\n"}
    outcome = await judge(bench, CHECK_CASES % NAMES_CASES[form], typed(SHOUTS))
    assert outcome.verdict.rewards == {"reward": 1.0}, outcome.of_kind("execution")
    assert outcome.verdict.separation == "separate", outcome.verdict.reason


EVALUATES = {
    "assigns": ('[[ "$(python3 /workspace/ledger.py 3)" -eq 9 ]] && score=1', "score=9", "9"),
    "calculates": ("got=$(python3 /workspace/ledger.py 3); n=3; (( got == n*n )) && score=1", "n*n", "9"),
    "code": ('eval "$(python3 /workspace/ledger.py 3)"; score=${score:-0}', "score=$((1))", "score=1"),
    "removes": (
        '[[ "$(python3 /workspace/ledger.py 3)" -eq 7 ]] || true',
        "x[$(rm -rf /run/verifier/* /tmp/*)0]+(score=7, score=1)",
        "7",
    ),
    "file": ("python3 /workspace/ledger.py > /tmp/cfg; . /tmp/cfg; score=${score:-0}", "score=$((1))", "score=1"),
    "document": ("python3 - <<END && score=1\nassert $(python3 /workspace/ledger.py 3) == 9\nEND", "9 or 8", "9"),
    "pattern": ('got=$(python3 /workspace/ledger.py 3); [[ "9" == $got ]] && score=1', "*", "9"),
}
"""A line that evaluates, a text that gains by it, and the text of the reference solution."""


@pytest.mark.long
@pytest.mark.parametrize("form", draw_sample([*EVALUATES], 2))
async def test_text_that_a_script_evaluates_is_separate_only_where_the_reference_prints_it_too(bench: Any, form: str):
    line, text, right = EVALUATES[form]
    script = f"#!/bin/bash\nscore=0\n{line}\necho $score > /logs/verifier/reward.txt\n"
    bench.solution = typed(f"print({right!r})")
    for answer, grade in ((text, "same-process"), (right, "separate")):
        outcome = await judge(bench, script, typed(f"print({answer!r})"))
        difference = outcome.of_kind("separation")[0].get("reference_difference", "")
        if answer == text or outcome.verdict.rewards == {"reward": 1.0}:  # one script gives the right text no reward
            assert outcome.verdict.rewards == {"reward": 1.0}, outcome.of_kind("execution")
            assert (outcome.verdict.separation, bool(difference)) == (grade, grade != "separate"), difference


LOADS = """#!/bin/sh
python3 - <<'END'
import json, pathlib, subprocess
out = subprocess.run(["python3", "/workspace/ledger.py"], capture_output=True, text=True).stdout
score = 0
for name, text in json.loads(out).items():
    pathlib.Path("/tmp", name).write_text(text)
score = 1 if pathlib.Path("/tmp/total").is_file() and pathlib.Path("/tmp/total").read_text() == "7" else 0
pathlib.Path("/logs/verifier/reward.txt").write_text(str(score))
END
"""


@pytest.mark.long
async def test_files_that_a_script_writes_by_printed_names_are_no_way_to_a_separate_pass(bench: Any):
    bench.solution = typed('print(\'{"total": "7"}\')')
    told = {"total": "6", "/logs/verifier/reward.json": '{"reward": 1}'}
    outcome = await judge(bench, LOADS, typed(f"import json\nprint(json.dumps({told!r}))"))
    assert (outcome.verdict.status, outcome.verdict.separation) != ("pass", "separate")
    outcome = await judge(bench, LOADS, bench.solution)
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "separate")


@pytest.mark.parametrize(
    ("solution", "reason"),
    [
        (typed("import time\nprint(12 if time.time_ns() else 0, time.time_ns())"), "another text"),
        (typed("print(12)") + "exit 3", "ended with exit code 3"),
        (typed("import sys\nprint('slow', file=sys.stderr)\n" + SUM), "another text"),
        (typed(SUM + "sys.exit(4)"), "another exit code"),
    ],
)
async def test_a_pass_is_not_separate_where_the_reference_gives_the_script_something_else(
    bench: Any, solution: str, reason: str
):
    bench.solution = solution
    outcome = await judge(bench, DIRECT, typed(SUM))
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "same-process")
    assert reason in outcome.verdict.reason


async def test_a_request_that_starts_nothing_is_something_that_the_script_reads():
    transcript, box = Transcript(), Mock(spec=PipedExec)
    programs = JudgedPrograms(box, box, timeout_s=1, transcript=transcript)
    assert "error" in await programs.answer({"op": "run", "argv": ["prog"], "cwd": "/"}, [])
    assert transcript.find_difference(Transcript()).startswith("the script reads 1 results")


BOTH = "import sys\nprint(1, flush=True)\nprint(2, file=sys.stderr, flush=True)\n"
SWAPPED = "import sys\nprint(2, file=sys.stderr, flush=True)\nprint(1, flush=True)\n"


APART = draw_sample(["2> /dev/null", ""], 1)


@pytest.mark.long
@pytest.mark.parametrize(("joins", "grade"), [("2>&1", "same-process"), *((joins, "separate") for joins in APART)])
async def test_the_order_of_two_streams_counts_where_the_script_joins_them(bench: Any, joins: str, grade: str):
    script = f"#!/bin/bash\ngot=$(python3 /workspace/ledger.py {joins}); echo 1 > /logs/verifier/reward.txt\n"
    bench.solution = typed(BOTH)
    assert (await judge(bench, script, typed(BOTH))).verdict.separation == "separate"
    assert (await judge(bench, script, typed(SWAPPED))).verdict.separation == grade


@pytest.mark.parametrize(
    "code", ["print(1)", "print(len(sys.stdin.readline()) - 1)", "print(len(sys.stdin.read()) // 4)"]
)
async def test_how_much_of_a_file_a_program_reads_does_not_decide_what_the_script_reads_next(bench: Any, code: str):
    script = '#!/bin/bash\n{ python3 /workspace/ledger.py; read -r rest; echo "rest=$rest"; } < /tests/cases\n'
    bench.files = {"tests/cases": "1\n2\n"}
    outcome = await judge(bench, script, typed(f"import sys\n{code}"))
    assert outcome.of_kind("execution")[0]["stdout"].split() == ["1", "rest="]


@pytest.mark.long
async def test_what_a_slow_script_reads_last_counts_too(bench: Any):
    slow = "#!/bin/bash\npython3 /workspace/ledger.py | { sleep 2; wc -c; }\necho 1 > /logs/verifier/reward.txt\n"
    bench.solution = typed("print('x' * 320000)")
    for end, grade in (("x", "separate"), ("y", "same-process")):
        outcome = await judge(bench, slow, typed(f"print('x' * 290000 + {end!r} * 30000)"))
        assert outcome.of_kind("execution")[0]["stdout"].strip() == "320001"
        assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", grade)


ENDS = {
    "finite": "for n in range(20000): print(n, 'x' * 50)",
    "flushed": "import time\nfor n in range(5): print(n, flush=True); time.sleep(0.01)",
    "endless": "import time\nwhile True: print('ready', flush=True); time.sleep(0.5)",
}


@pytest.mark.parametrize("form", draw_sample([*ENDS], 1))
async def test_a_program_whose_output_is_not_read_to_the_end_ends_in_the_same_way_each_time(bench: Any, form: str):
    script = "#!/bin/bash\npython3 /workspace/ledger.py | head -1\necho 1 > /logs/verifier/reward.txt\n"
    outcome = await judge(bench, script, typed(ENDS[form]))
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "separate"), outcome.verdict.reason
    (program,) = outcome.of_kind("judged_programs")[0]["programs"]
    assert program[2] < 10


async def test_a_program_may_open_its_outputs_by_name(bench: Any):
    program = "#!/bin/sh\necho out > /dev/stdout; echo err > /dev/stderr; echo both | tee /dev/stderr\n"
    command = f"printf '%s' '{program}' > /workspace/prog; chmod +x /workspace/prog"
    script = "#!/bin/bash\n/workspace/prog\n"
    ran = (await judge(bench, script, command, programs=["/workspace/prog"])).of_kind("execution")[0]
    assert (ran["stdout"].split(), ran["stderr"].split()) == (["out", "both"], ["err", "both"])


async def test_why_a_program_cannot_be_started_is_something_that_the_script_reads(bench: Any):
    script = '#!/bin/bash\ngot=$(/workspace/prog 2>&1)\n[ -n "$got" ] && echo 1 > /logs/verifier/reward.txt\n'
    bench.solution = "printf '#!/bin/sh\\nexit 127' > /workspace/prog; chmod +x /workspace/prog"
    outcome = await judge(bench, script, "true", programs=["/workspace/prog"])
    assert (outcome.verdict.rewards, outcome.verdict.separation) == ({"reward": 1.0}, "same-process")


@pytest.mark.long
async def test_a_partial_reward_is_compared_too(bench: Any):
    script = DIRECT.replace("echo $score", "echo 0.5")
    outcome = await judge(bench, script, typed(SUM))
    assert (outcome.verdict.score, outcome.verdict.separation) == (0.5, "separate")
    bench.solution = typed("print(1)")
    outcome = await judge(bench, script, typed(SUM))
    assert (outcome.verdict.score, outcome.verdict.separation) == (0.5, "same-process")


@pytest.mark.parametrize("reader", draw_sample(["head -c 3", "head -1", "grep -q y", "true"], 2))
async def test_output_that_the_script_does_not_read_to_the_end_is_compared_as_far_as_it_went(bench: Any, reader: str):
    script = f"#!/bin/bash\npython3 /workspace/ledger.py | {reader}\necho 1 > /logs/verifier/reward.txt\n"
    outcome = await judge(bench, script, typed("while True: print('y' * 100)"))
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "separate"), outcome.verdict.reason


async def test_a_file_that_was_named_before_a_program_printed_its_name_is_lent_again(bench: Any):
    script = "#!/bin/bash\nfor n in 1 2; do echo $n > /tmp/given; python3 /workspace/ledger.py /tmp/given; done\n"
    outcome = await judge(bench, script, typed("import sys\nprint(sys.argv[1], open(sys.argv[1]).read())"))
    assert outcome.of_kind("execution")[0]["stdout"].split() == ["/tmp/given", "1", "/tmp/given", "2"]


async def test_a_loop_over_a_file_keeps_the_lines_that_a_program_does_not_read(bench: Any):
    script = "#!/bin/bash\nwhile read -r line; do echo $line; python3 /workspace/ledger.py 1 2; done < /tests/lines\n"
    bench.files = {"tests/lines": "a\nb\nc\n", SCRIPT: script}
    outcome = await bench.judge(typed(SUM), "script", script=SCRIPT, programs=["/workspace/ledger.py"])
    assert outcome.of_kind("execution")[0]["stdout"].split() == ["a", "3", "b", "3", "c", "3"]


TAKES_THE_CASES = "import sys\nsys.stdin.read()\nprint(7)"
"""Does the first case by heart, and would leave the script none to go on with."""


LOOP = """#!/bin/bash
score=1
%swhile read -r one other sum; do
  [ "$(timeout 9 python3 /workspace/ledger.py $one $other)" = $sum ] || { score=0; touch /tmp/wrong; }
done%s
[ -e /tmp/wrong ] && score=0
echo $score > /logs/verifier/reward.txt
"""
CASES = "3 4 7\n1 1 2\n5 5 10\n"
LOOPS = {
    "file": ("", " < /tests/cases"),
    "pipe": ("cat /tests/cases | ", ""),
    "text": ("", f" <<'END'\n{CASES}END"),
    "command": ("", " < <(cat /tests/cases)"),
    "shell": ("cat /tests/cases | bash -c '", "; [ ! -e /tmp/wrong ]'"),
}


@pytest.mark.long
@pytest.mark.parametrize("form", draw_sample([*LOOPS], 1))
async def test_cases_that_the_script_has_not_read_yet_are_no_input_of_a_program(bench: Any, form: str):
    bench.files = {"tests/cases": CASES}
    outcome = await judge(bench, LOOP % LOOPS[form], typed(TAKES_THE_CASES))
    assert (outcome.verdict.status, outcome.verdict.separation) == ("fail", "separate")
    outcome = await judge(bench, LOOP % LOOPS[form], typed(SUM))
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "separate")


async def test_a_function_of_the_script_hands_its_input_to_a_program(bench: Any):
    script = "#!/bin/bash\nrun() { timeout 9 python3 /workspace/ledger.py; }\necho 12 | run\n"
    outcome = await judge(bench, script, typed("print(input())"))
    assert outcome.of_kind("execution")[0]["stdout"].split() == ["12"]


async def test_a_python_program_may_be_started_by_its_path_alone(bench: Any):
    script = "#!/bin/bash\ncd /workspace; ./ledger.py 3 4\n"
    outcome = await judge(bench, script, typed("#!/usr/bin/env python3\n" + SUM) + "chmod +x /workspace/ledger.py")
    assert outcome.of_kind("execution")[0]["stdout"].split() == ["7"]


async def test_a_program_is_started_in_a_folder_that_the_script_made(bench: Any):
    script = "#!/bin/bash\ncd $(mktemp -d); echo 5 > given; python3 /workspace/ledger.py ./given\n"
    outcome = await judge(bench, script, typed("import sys\nprint(open(sys.argv[1]).read())"))
    assert outcome.of_kind("execution")[0]["stdout"].split() == ["5"]


async def test_more_output_than_a_pipe_holds_arrives_whole(bench: Any):
    script = "#!/bin/bash\nyes | head -c 300000 | python3 /workspace/ledger.py | wc -c\n"
    outcome = await judge(bench, script, typed("import sys\nsys.stdout.write(sys.stdin.read() * 2)"))
    assert outcome.of_kind("execution")[0]["stdout"].strip() == "600000"


async def test_an_agents_module_is_never_imported_by_the_script(bench: Any):
    script = "#!/bin/bash\ncd /workspace; python3 -c 'import ledger'; python3 -c 'import json; print(json.__file__)'\n"
    outcome = await judge(bench, script, typed("print('imported')") + "echo 'print(1)' > /workspace/json.py")
    ran = outcome.of_kind("execution")[0]
    assert "imported" not in ran["stdout"]
    assert "/workspace" not in ran["stdout"]
    assert "judged from outside" in ran["stderr"]


@pytest.mark.parametrize("path", ["a", "/w/../x", "/w//x", "/tests/a", "/w/it's", "/w/conftest.py", "/w/run.sh"])
def test_an_output_is_an_absolute_path_of_data(path: str):
    with pytest.raises(TaskError):
        require_data_path(path, data=True)
