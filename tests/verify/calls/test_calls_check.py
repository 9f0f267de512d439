"""The check `calls`: programs in several languages, judged in real sandboxes by fresh inputs."""

from __future__ import annotations

import msgspec
import pytest

from assay.verify.calls import CalledProgram, CallPlan, CallProgram, load_language, stdio_worker
from tests.verify.conftest import Bench, Outcome

REFERENCE = '''
def clamp(value, low=0, high=10):
    """Returns the value, or the nearest bound."""
    if low > high:
        raise ValueError("no range")
    return max(low, min(high, value))
'''
NODE = """
const lines = require("fs").readFileSync(0, "utf8").split("\\n").filter((line) => line);
for (const line of lines) {
  const { value, low = 0, high = 10 } = JSON.parse(line);
  const result = Math.max(low, Math.min(high, value));
  console.log(JSON.stringify(low > high ? { error: "ValueError" } : { result }));
}
"""
PERL = """
use JSON::PP;
my $json = JSON::PP->new->allow_nonref;
while (my $line = <STDIN>) {
    my $request = $json->decode($line);
    my ($value, $low, $high) = ($request->{value}, $request->{low} // 0, $request->{high} // 10);
    if ($low > $high) { print "{\\"error\\": \\"ValueError\\"}\\n"; next; }
    $value = $high if $value > $high;
    $value = $low if $value < $low;
    printf "{\\"result\\": %.17g}\\n", $value;
}
"""
C = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static double field(const char *line, const char *name, double missing) {
    const char *found = strstr(line, name);
    return found ? atof(found + strlen(name)) : missing;
}
int main(void) {
    char line[1 << 16];
    while (fgets(line, sizeof line, stdin)) {
        double value = field(line, "\\"value\\": ", 0);
        double low = field(line, "\\"low\\": ", 0), high = field(line, "\\"high\\": ", 10);
        if (low > high) { puts("{\\"error\\": \\"ValueError\\"}"); continue; }
        printf("{\\"result\\": %.17g}\\n", value > high ? high : value < low ? low : value);
    }
    return 0;
}
"""
RIGHT = {"node": NODE, "perl": PERL, "c": C}


def call(*args: object) -> CallProgram:
    return CallProgram("t", ([0, "call", ["g", "bounds", "clamp"], "", list(args), []],), 0)


def plan(language: str) -> CallPlan:
    called = CalledProgram(load_language(language), "bounds:clamp", ("value", "low", "high"))
    calls = (call(3), call(12, 2), call(-4, 1, 6), call(["f", "0x1.4cccccccccccdp+3"], 1, 8))
    return CallPlan(calls, ("bounds",), ("/workspace",), 30, exceptions=("ValueError",), fair_share=0.8, program=called)


async def judge(bench: Bench, language: str, program: str) -> Outcome:
    bench.files = {
        "tests/calls.json": msgspec.json.encode(plan(language)).decode(),
        "tests/reference/bounds.py": REFERENCE,
    }
    file = load_language(language).file
    return await bench.judge(f"cat > {file} <<'PROGRAM'\n{program}PROGRAM\n", "calls", source="bounds.py")


@pytest.mark.long
@pytest.mark.parametrize("language", ["node", "perl", "c"])
async def test_a_right_program_passes_apart(bench: Bench, language: str) -> None:
    outcome = await judge(bench, language, RIGHT[language])
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "separate"), outcome.verdict.reason
    (asked,) = outcome.of_kind("calls")
    assert asked["compared"] >= 30
    assert len(bytes.fromhex(asked["seed"])) == 32


@pytest.mark.long
@pytest.mark.parametrize(
    ("language", "program", "said"),
    [
        ("perl", PERL.replace("$value > $high", "$value < $high"), "answered otherwise"),
        ("perl", PERL.replace('{\\"error\\": \\"ValueError\\"}', '{\\"result\\": 0}'), "answered otherwise"),
        ("perl", 'print "{\\"result\\": 3}\\n" while <STDIN>;\n', "answered otherwise"),
    ],
)
async def test_a_wrong_program_fails(bench: Bench, language: str, program: str, said: str) -> None:
    outcome = await judge(bench, language, program)
    assert outcome.verdict.status == "fail"
    assert said in outcome.verdict.reason


async def test_a_compiler_error_is_cited(bench: Bench) -> None:
    outcome = await judge(bench, "c", "int main(void) { return undeclared; }\n")
    (asked,) = outcome.of_kind("calls")
    assert outcome.verdict.status == "fail"
    assert "answered otherwise" in outcome.verdict.reason
    assert "undeclared" in asked["worker"]
    assert asked["answered"] == 0


@pytest.mark.long
async def test_a_program_that_waits_without_end_is_no_result_and_controls_decide(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio_worker, "START_S", 1.0)
    monkeypatch.setattr(stdio_worker, "REQUEST_S", 0.01)
    outcome = await judge(bench, "perl", "sleep 600;\n")
    marks = set(outcome.verdict.marks)
    assert {"no_result", "time_limit"} <= marks
    assert len(outcome.of_kind("control")) == 2
    # The tests' own machine may be too busy for the last word.
    assert ("agent_made_unjudgeable" in marks) == (outcome.verdict.status == "fail")
    assert outcome.verdict.status == "fail" or "host_busy" in marks


@pytest.mark.long
async def test_a_program_that_computes_without_end_fails_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio_worker, "START_S", 1.0)
    monkeypatch.setattr(stdio_worker, "REQUEST_S", 0.01)
    monkeypatch.setattr(stdio_worker, "CPU_SHARE", 0.1)  # of a busy machine, too
    outcome = await judge(bench, "perl", "$| = 1; 1 while 1;\n")
    assert (outcome.verdict.status, outcome.verdict.marks) == ("fail", ())
    # A run on a busy machine may come to no result, and is followed by another.
    answers = {found["answer"] for run in outcome.of_kind("calls") for found in run["differences"]}
    assert "no end within its processor time" in answers


@pytest.mark.long
async def test_a_program_that_dies_is_started_again_and_fails(bench: Bench) -> None:
    dying = PERL.replace("if ($low", "exit 3 if $value > 9;\n    if ($low").replace("my $json", "$| = 1;\nmy $json", 1)
    outcome = await judge(bench, "perl", dying)
    (asked,) = outcome.of_kind("calls")
    assert outcome.verdict.status == "fail"
    assert "ended with exit code 3" in asked["worker"]
    assert asked["answered"] > 4


LOOKING = """
while (<STDIN>) {
    my $found = `find /workspace /tests /solution -name calls.json -o -name bounds.py 2>/dev/null | wc -l`;
    chomp $found;
    print "{\\"error\\": \\"$found\\"}\\n";
}
"""


@pytest.mark.long
async def test_a_program_finds_neither_plan_nor_reference(bench: Bench) -> None:
    outcome = await judge(bench, "perl", LOOKING)
    (asked,) = outcome.of_kind("calls")
    assert {one["answer"] for one in asked["differences"]} == {"raises 0"}


async def test_without_a_plan_the_task_is_at_fault(bench: Bench) -> None:
    outcome = await bench.judge("true", "calls")
    assert outcome.verdict.status == "error"
    assert "tests/calls.json" in outcome.verdict.reason
