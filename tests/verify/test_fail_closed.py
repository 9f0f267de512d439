"""However a verifier breaks, the verdict is no pass: a table of ways, each broken for real in a sandbox.

The same table stands in docs/explanation/verdicts.md; a test compares the two.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.sampling import draw_sample

from .conftest import Bench

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "verdicts.md"
PAID = "echo 1 > /logs/verifier/reward.txt"
PYTEST = "cd /workspace; python3 -m pytest -q -p no:cacheprovider /tests"
CTRF = """cat > /logs/verifier/ctrf.json <<'END'
{"results": {"tool": {"name": "t"}, "summary": {"tests": 1, "passed": 0, "failed": 1, "pending": 0, "skipped": 0,
"other": 0, "start": 0, "stop": 1}, "tests": [{"name": "a", "status": "failed", "duration": 1}]}}
END
"""
JUNIT = '<testsuite><testcase classname="t" name="a"><failure message="no"/></testcase></testsuite>'


class Way(msgspec.Struct, frozen=True):
    """One way to break: in words for the docs, as a script, and what comes of it."""

    words: str
    status: str
    says: str
    """Part of the verdict's reason."""
    script: str = PAID
    tests: str | None = None
    """A Python file of tests beside the script."""
    left: str = "true"
    """What the agent leaves: a shell command."""
    parameters: dict[str, Any] = {}


WAYS = (
    Way("no reward file", "unknown", "no reward was written", "true"),
    Way("an empty reward file", "unknown", "not a number", ": > /logs/verifier/reward.txt"),
    Way("NaN as the reward", "unknown", "only finite numbers", "echo nan > /logs/verifier/reward.txt"),
    Way("infinity as the reward", "unknown", "only finite numbers", "echo inf > /logs/verifier/reward.txt"),
    Way("a word as the reward", "unknown", "not a number", "echo passed > /logs/verifier/reward.txt"),
    Way("bytes that are no text", "unknown", "not ASCII text", "printf '\\377\\3761' > /logs/verifier/reward.txt"),
    Way("digits of another script", "unknown", "not ASCII text", "printf '\\331\\241' > /logs/verifier/reward.txt"),
    Way("half of a JSON file", "unknown", "not JSON", "printf '{\"reward\": 1' > /logs/verifier/reward.json"),
    Way("text in a JSON file", "unknown", "is text", 'echo \'{"reward": "1"}\' > /logs/verifier/reward.json'),
    Way("a JSON file with no number", "unknown", "1 to 100 numbers", "echo '{}' > /logs/verifier/reward.json"),
    Way(
        "two reward files that disagree",
        "unknown",
        "reward.json says 1 and reward.txt says 0",
        "echo '{\"reward\": 1}' > /logs/verifier/reward.json; echo 0 > /logs/verifier/reward.txt",
    ),
    Way(
        "an unusable reward file beside a good one",
        "error",
        "cannot be used",
        "echo '{' > /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt",
    ),
    Way("a link in place of the reward", "unknown", "no reward", "ln -s /workspace/one /logs/verifier/reward.txt"),
    Way("a reward that cannot be written", "unknown", "no reward", f"{PAID}; chmod 444 /logs/verifier/reward.txt"),
    Way("a reward file without end", "unknown", "reward.txt", "yes 1 | head -c 100000 > /logs/verifier/reward.txt"),
    Way("a crash after the reward was written", "unknown", "exit code -11", f"{PAID}; kill -SEGV $$"),
    Way("an exit code against the reward", "unknown", "exit code 3", f"{PAID}; exit 3"),
    Way("the time limit", "unknown", "time limit", f"{PAID}; sleep 30", parameters={"timeout_s": 1.0}),
    Way(
        "killed by the memory limit",
        "unknown",
        "limit of memory",
        f"{PAID}; exec python3 -c 'held = [bytearray(1 << 20) for _ in range(4096)]'",
    ),
    Way(
        "a disk that is full",
        "unknown",
        "not a number",
        f"dd if=/dev/zero of=/logs/verifier/full bs=1M count=2000 2> /dev/null; {PAID}; true",
    ),
    Way("an interpreter that is not there", "unknown", "exit code 127", parameters={"interpreter": ["/bin/none"]}),
    Way(
        "all tests skipped, with exit code 0",
        "unknown",
        "observed no passing test",
        f"{PYTEST} && {PAID}",
        "import pytest\n\n\ndef test_a():\n    pytest.skip('no')\n",
    ),
    Way(
        "no tests collected",
        "unknown",
        "observed no passing test",
        f"{PYTEST}; [ $? -eq 5 ] && {PAID}",
        "x = 1\n",
    ),
    Way(
        "tests that fail against the reward",
        "fail",
        "1 tests failed",
        f"{PYTEST}; {PAID}",
        "def test_a():\n    assert False\n",
    ),
    Way(
        "test files that cannot be collected, with a reward",
        "fail",
        "",
        f"{PYTEST}; {PAID}",
        "import nothing_of_that_name\n",
    ),
    Way(
        "a test run that ends in the middle, with exit code 0",
        "unknown",
        "not whole",
        f"{PYTEST}; {PAID}",
        "import os\n\n\ndef test_a():\n    pass\n\n\ndef test_b():\n    os._exit(0)\n",
    ),
    Way("a CTRF report against the reward", "fail", "failures", CTRF + PAID),
    Way("a JUnit report against the reward", "fail", "failures", f"echo '{JUNIT}' > /logs/verifier/junit.xml; {PAID}"),
    Way("a report that cannot be read", "unknown", "malformed", f"echo '{{' > /logs/verifier/ctrf.json; {PAID}"),
    Way("processes that outlive the script", "unknown", "still running", f"setsid sleep 60 & {PAID}"),
    Way("a script that is not in the folder", "error", "is not in the task", parameters={"script": "tests/none.sh"}),
)


async def judged(bench: Bench, way: Way) -> tuple[str, float | None, str]:
    bench.files = {"tests/test.sh": way.script + "\n"}
    if way.tests is not None:
        bench.files["tests/test_given.py"] = way.tests
    parameters = {"script": "tests/test.sh", "interpreter": ["/bin/bash"], "timeout_s": 30.0, **way.parameters}
    verdict = (await bench.judge(f"echo 1 > /workspace/one; {way.left}", "script", **parameters)).verdict
    return verdict.status, verdict.score, verdict.reason


def test_there_are_enough_ways() -> None:
    assert len({way.words for way in WAYS}) == len(WAYS) >= 20


@pytest.mark.long
@pytest.mark.parametrize("way", draw_sample(WAYS, 12), ids=lambda way: way.words.replace(" ", "_"))
async def test_a_verifier_that_breaks_never_passes(bench: Bench, way: Way) -> None:
    status, score, reason = await judged(bench, way)
    assert status != "pass", reason
    assert (status, way.says in reason) == (way.status, True), (status, reason)
    assert (score == 0.0) == (status == "fail")


async def test_what_is_whole_passes(bench: Bench) -> None:
    assert (await judged(bench, Way("", "", "")))[:2] == ("pass", 1.0)


def test_the_page_has_the_same_table() -> None:
    rows = [f"| {way.words} | `{way.status}` |" for way in WAYS]
    assert "\n".join(["| what breaks | verdict |", "|---|---|", *rows, ""]) in PAGE.read_text()
