"""Programs of the planner, as forks of one process in their sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assay.code.batches import Job
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.toolchain import ensure_toolchain
from assay.settings import Settings
from assay.synthesis._laboratory import Laboratory
from assay.synthesis._tree import load_source

PACKAGE = {
    "pyproject.toml": "[project]\nname = 'double'\nversion = '1'\n",
    "double/__init__.py": "def double(x): return 2 * x\n",
}
PACKAGE |= {"tests/test_double.py": "import double\n\n\ndef test_double():\n    assert double.double(2) == 4\n"}
FILE = "tests/test_double.py"
CONFTEST = "import pytest\n\n\ndef pytest_runtest_setup(item):\n    pytest.skip('configured')\n"
PARENT = "import os\n\n\ndef main(request, reply):\n    open(reply, 'w').write(str(os.getppid()))\n"
LEAVING = """import os, time


def main(request, reply):
    if not os.fork():
        os.setsid()
        if not os.fork():
            time.sleep(600)
        os._exit(0)
    open(reply, "w").write("left")
"""
COUNTING = """import os


def main(request, reply):
    count = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) not in (1, os.getpid(), os.getppid()):
            count += 1
    open(reply, "w").write(str(count))
"""
DEADLY = """import os, signal, sys


def main(request, reply):
    os.kill(os.getppid(), signal.SIGKILL)


if __name__ == "__main__":
    open(sys.argv[2], "w").write("alone")
"""


@pytest.fixture
async def laboratory(tmp_path: Path) -> AsyncIterator[Laboratory]:
    for path, text in PACKAGE.items():
        (tmp_path / "source" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / path).write_text(text)
    layer = await asyncio.to_thread(ensure_toolchain, Settings.from_environment().cache, ())
    backend, tree = NamespacesBackend(), load_source(str(tmp_path / "source"))
    async with Laboratory(tree, backend, layer, 1) as opened:
        yield opened
    await backend.close()


async def run(laboratory: Laboratory, folder: Path, name: str, text: str) -> str:
    (folder / f"{name}.py").write_text(text)
    return (await laboratory.run_program([folder / f"{name}.py"], b"{}", 60.0)).decode()


async def test_programs_and_batches_are_forks_of_one_process(laboratory: Laboratory, tmp_path: Path) -> None:
    first = await run(laboratory, tmp_path, "parent", PARENT)
    results = await laboratory.run([Job("one", ("tests/test_double.py::test_double",))], repetition=0)
    assert results["one"].tests["tests/test_double.py::test_double"].outcome == "passed"
    assert await run(laboratory, tmp_path, "parent", PARENT) == first


async def test_what_a_program_leaves_is_ended_before_the_next_one(laboratory: Laboratory, tmp_path: Path) -> None:
    assert await run(laboratory, tmp_path, "leaving", LEAVING) == "left"
    assert await run(laboratory, tmp_path, "counting", COUNTING) == "0"


async def test_a_program_that_ends_the_server_runs_as_a_process_of_its_own(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    assert await run(laboratory, tmp_path, "deadly", DEADLY) == "alone"
    assert (await run(laboratory, tmp_path, "parent", PARENT)).isdigit()


async def test_each_hash_seed_has_a_server(laboratory: Laboratory) -> None:
    text = "import os, sys\n\n\ndef test_seed():\n    assert os.environ['PYTHONHASHSEED'] == '{}'\n"
    text += "    assert 'double' not in sys.modules\n"
    for seed in (1, 0, 2, 1):
        job = Job("one", ("tests/test_double.py::test_seed",), write={"tests/test_double.py": text.format(seed)})
        result = (await laboratory.run([job], repetition=seed, fresh=True))["one"]
        assert result.tests["tests/test_double.py::test_seed"].outcome == "passed"
    (servers,) = laboratory._servers.values()
    assert sorted(servers) == [0, 1, 2]


async def test_runs_from_one_configuration_end_as_those_with_their_own(laboratory: Laboratory) -> None:
    test, slow = "tests/test_double.py::test_double", "\n\ndef test_slow():\n    while True:\n        pass\n"
    jobs = [
        Job("passes", (test,)),
        Job("explained", (test,), write={"double/__init__.py": "def double(x): return 3\n"}, explain=True),
        Job("fails", (test,), write={"double/__init__.py": "def double(x): return 3\n"}, until_failure=True),
        Job("absent", ("tests/test_double.py::test_absent",)),
        Job("broken", (test,), write={"double/__init__.py": "1 / 0\n"}),
        Job("slow", ("tests/test_double.py",), write={"tests/test_double.py": f"{PACKAGE[FILE]}{slow}"}, slow_s=0.1),
        Job("configured", (test,), write={"tests/conftest.py": CONFTEST}),
    ]
    done = await laboratory.run(jobs, repetition=0)
    assert {name: result.ended for name, result in done.items()} == {job.id: "done" for job in jobs} | {"slow": "slow"}
    outcomes = {name: [one.outcome for one in result.tests.values()] for name, result in done.items()}
    assert outcomes["passes"] == ["passed"]
    assert outcomes["fails"] == outcomes["explained"] == ["failed"]
    assert "assert 3 == 4" in done["explained"].tests[test].message
    assert "ZeroDivisionError" in done["broken"].problems[0]
    assert done["slow"].slow == "tests/test_double.py::test_slow"
    assert outcomes["configured"] == ["skipped"]
    assert [done[name].exit_code for name in ("passes", "fails", "absent", "broken")] == [0, 1, 4, 4]
