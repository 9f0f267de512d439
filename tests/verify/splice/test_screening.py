"""Judges that run the tests of many attempts, in real sandboxes: they say what the judge of one attempt says, a pass
never comes from them, and no attempt leaves the next one anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from assay.verify.splice import screening
from assay.verify.splice.screening import Screen, ScreeningJudges

from .conftest import IDS, TESTS, Shop, solution

ATTACK = """
import ctypes, gc, json, os, signal, sys, time
def attack():
    for pid in range(2, 40):
        for act in (
            lambda: os.kill(pid, signal.SIGKILL),
            lambda: open(f"/proc/{pid}/mem", "r+b").close(),
            lambda: open(f"/proc/{pid}/fd/0").close(),
            lambda: ctypes.CDLL(None).ptrace(16, pid, 0, 0),
        ):
            if pid not in (os.getpid(), os.getppid()):
                try: act()
                except OSError: pass
    for fd in range(3, 64):
        try: os.write(fd, b"\\x00\\x00\\x00\\x02{}" * 100)
        except OSError: pass
    for folder in ("/run/verifier", "/logs/verifier", "/tmp", "/dev/shm", "/opt/assay-verify", "/workspace"):
        for name in ("again", "judge.json", "conftest.py", "reward.txt"):
            try: open(f"{folder}/{name}", "w").write("1")
            except OSError: pass
"""
"""Attacks that code under test can try from its own sandbox."""


class Screened(Shop):
    """The shop, judged by a screening judge first."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop.bench)
        self.spent: list[float | None] = []
        self.judges = ScreeningJudges(shop.bench.backend)
        self.bench.screen = Screen(self.judges, self.spent.append)

    async def modes_of(self, command: str, **more: Any) -> tuple[str, list[str]]:
        """The verdict's status, and the modes of the judges that it cites."""
        outcome = await self.judge(command, **more)
        modes = [data["argv"][2] for data in outcome.of_kind("execution") if data["argv"][1].endswith("/runner.py")]
        return outcome.verdict.status, modes


@pytest_asyncio.fixture(loop_scope="session")
async def screened(shop: Shop) -> AsyncIterator[Screened]:
    screened = Screened(shop)
    yield screened
    await screened.judges.close()


async def test_a_plain_failure_is_that_of_an_own_judge(screened: Screened) -> None:
    wrong = solution(total="return 1")
    found = await screened.judge(wrong)
    screened.bench.screen = None
    own = await screened.judge(wrong)
    assert found.verdict.separation == "separate" == own.verdict.separation
    for name in ("status", "score", "reason", "marks", "separations"):
        assert getattr(found.verdict, name) == getattr(own.verdict, name), name
    (report,), (other,) = found.of_kind("test_report"), own.of_kind("test_report")
    assert report == other
    assert len(screened.spent) == 1
    assert all(screened.spent)


async def test_a_pass_never_comes_from_it(screened: Screened) -> None:
    assert await screened.modes_of("true") == ("fail", ["serve"])
    assert await screened.modes_of(solution()) == ("pass", ["judge", "again"])
    assert await screened.modes_of(solution(lines="yield 'c'")) == ("fail", ["serve"])
    assert len(screened.spent) == 3
    assert [judge.runs for judge, _ in screened.judges._open.values()] == [3]


async def test_an_attempt_is_judged_itself_whatever_failed_on_its_state_before(screened: Screened) -> None:
    wrong = solution(total="return 1")
    found = [await screened.modes_of(wrong) for _ in range(2)]
    assert found == [("fail", ["serve"])] * 2
    assert len(screened.spent) == 2
    assert [judge.runs for judge, _ in screened.judges._open.values()] == [2]


@pytest.mark.long
async def test_code_under_test_leaves_the_next_attempt_nothing(screened: Screened) -> None:
    attacks = solution(total="attack()\n    return 7") + f"cat >> shop/core.py <<'PYTHON'{ATTACK}PYTHON\n"
    garbage = solution(total="attack()\n    os._exit(0)") + f"cat >> shop/core.py <<'PYTHON'{ATTACK}PYTHON\n"
    for command in (attacks, garbage, "true"):
        status, modes = await screened.modes_of(command)
        assert status == "fail", (command, modes)
    assert await screened.modes_of(solution()) == ("pass", ["judge", "again"])
    assert await screened.modes_of(solution(missing="return name")) == ("fail", ["serve"])
    assert [judge.runs for judge, _ in screened.judges._open.values()] == [5]


COUNTING = (
    TESTS
    + """

seen = []


def test_memory():
    seen.append(shop.total([("a", 1)]))
    assert len(seen) == 1
    assert seen == [1]
"""
)


async def test_no_run_sees_the_memory_of_another(screened: Screened) -> None:
    for amount in (5, 6, 7):
        outcome = await screened.judge(solution(total=f"return {amount}"), tests=COUNTING, expected=IDS["total"])
        assert outcome.verdict.status == ("pass" if amount == 7 else "fail"), outcome.verdict
    assert len(screened.spent) == 3
    assert [judge.runs for judge, _ in screened.judges._open.values()] == [3]


LOOKING = """
import os


def test_total():
    assert shop.total([("a", 3)]) == 1
    found, parent = [], os.getppid()
    above = int(open(f"/proc/{parent}/stat").read().rsplit(")", 1)[1].split()[1])
    for pid in (parent, above):
        assert pid > 1
        for name in ("mem", "environ", "maps", "fd/0"):
            try:
                open(f"/proc/{pid}/{name}", "rb").read(1)
            except PermissionError:
                continue
            found.append(f"{name} of {pid}")
    own = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    links = [os.readlink(path) for path in own if os.path.exists(path)]
    found += [link for link in links if link.startswith("socket")]
    assert len({link for link in links if link.startswith("pipe")}) == 4, links  # told, output, and two of the worker
    assert not "all", found
"""


async def test_a_fork_reaches_neither_its_parents_nor_the_host(screened: Screened) -> None:
    tests = TESTS.replace("def test_total():", "def unused_test_total():") + LOOKING
    outcome = await screened.judge(solution(total="return 1"), tests=tests, expected=IDS["total"])
    assert outcome.verdict.status == "fail"
    (run, _) = outcome.of_kind("execution")
    assert run["argv"][2] == "serve"
    assert "AssertionError: []" in run["stdout"], run["stdout"]


FILE_OF_A_TEST = '    path = pathlib.Path("{path}")\n    assert not path.exists()\n    path.write_text("1")\n'
WRITING = "import pathlib\n" + TESTS.replace("    assert shop.total(", FILE_OF_A_TEST + "    assert shop.total(")


@pytest.mark.parametrize("path", ["/tmp/seen", "/workspace/seen", "/dev/shm/seen", "/root/seen"])
async def test_where_tests_write_files_no_other_attempt_is_judged_there(screened: Screened, path: str) -> None:
    tests = WRITING.replace("{path}", path)
    for command, modes in ((solution(total="return 1"), ["judge"]), ("true", ["judge"])):
        status, found = await screened.modes_of(command, tests=tests)
        assert (status, found) == ("fail", modes)
    assert screened.spent == []


SHARING = {
    "threads": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n",
    "an open file": "import tempfile\nkept = tempfile.TemporaryFile()\n",
    "shared memory": "import mmap\nkept = mmap.mmap(-1, 4096)\n",
    "a process": "import subprocess\nkept = subprocess.Popen(['/bin/sleep', '60'])\n",
}


@pytest.mark.parametrize("what", list(SHARING))
async def test_tests_that_share_more_than_memory_with_a_fork_are_judged_alone(screened: Screened, what: str) -> None:
    tests = SHARING[what] + TESTS
    outcome = await screened.judge("true", tests=tests, expected=IDS["total"])
    assert outcome.verdict.status == "fail"
    assert screened.spent == []


async def test_a_judge_that_is_gone_is_not_missed(screened: Screened) -> None:
    assert await screened.modes_of("true") == ("fail", ["serve"])
    ((judge, _),) = screened.judges._open.values()
    await judge.workspace.kill_all()
    assert await screened.modes_of("echo >> shop/core.py") == ("fail", ["judge"])


async def test_attempts_at_once_are_judged_one_after_the_other(screened: Screened) -> None:
    wrong = solution(ordered="return []")
    changes = [f"echo '# {number}' >> shop/core.py\n" for number in range(3)]
    found = await asyncio.gather(*(screened.judge(wrong + change) for change in changes))
    assert [one.verdict.status for one in found] == ["fail"] * 3
    assert len(screened.spent) == 3
    assert len({one.verdict.reason for one in found}) == 1
    assert len(screened.judges._open) == 1


@pytest.mark.long
async def test_code_that_loops_is_judged_anew_after_seconds(
    screened: Screened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screening, "LEAST_LIMIT_S", 1.0)
    first, end = "    assert shop.total(", "    end = time.monotonic() + 4.0\n"
    loop = "    while shop.total([]) != 0 and time.monotonic() < end:\n        pass\n"
    looping = "import time\n" + TESTS.replace(first, end + loop + first, 1)
    wrong = solution(total="return 1")
    status, modes = await screened.modes_of(wrong, tests=looping, expected=IDS["total"], timeout_s=30.0)
    assert (status, modes[:1]) == ("fail", ["judge"])
    assert screened.spent
    assert all(spent is not None and spent < 2.5 for spent in screened.spent)
