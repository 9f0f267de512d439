"""Tests that are collected once, for many runs, end as those that each run collects itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from assay.code.batches import Job, JobResult
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.toolchain import ensure_toolchain
from assay.settings import Settings
from assay.synthesis._gates import normalise_message
from assay.synthesis._laboratory import Laboratory
from assay.synthesis._tree import load_source

PROGRAM = "def double(x):\n    return 2 * x\n\n\ndef triple(x):\n    return 3 * x\n"
LAZY = "REGISTERED = []\n\n\ndef register():\n    REGISTERED.append(1)\n    return REGISTERED\n\n\nregister()\n"
PLACE = """

def test_place():
    import sys
    raise ValueError(type(sys.modules["loaded_package"].IN_MEMORY[0]._collected).__name__)
"""
SHARED = """import pickle
import random

import double
import pytest

DRAWN = random.random()
FOUR = double.triple(1) + 1


class Point:
    pass


@pytest.fixture(scope="module")
def calls():
    return []


@pytest.mark.parametrize("factor", [1, 2])
def test_double(calls, factor):
    calls.append(factor)
    assert double.double(factor) == 2 * factor


def test_order(calls):
    assert calls == [1, 2]


def test_drawn():
    assert [DRAWN, random.random()] == [0.8444218515250481, 0.7579544029403025]


def test_pickled():
    assert type(pickle.loads(pickle.dumps(Point()))) is Point


class TestTriple:
    def test_triple(self):
        assert double.triple(2) == 6

    def test_four(self):
        assert FOUR == 4
"""
FILES = {
    "pyproject.toml": "[project]\nname = 'double'\nversion = '1'\n",
    "double/__init__.py": PROGRAM,
    "double/lazy.py": LAZY,
    "tests/test_shared.py": SHARED + PLACE,
    "tests/test_lazy.py": "from double import lazy\n\n\ndef test_lazy():\n    assert len(lazy.register()) == 2\n",
    "tests/test_other.py": "from double import lazy\n\n\ndef test_other():\n    assert len(lazy.REGISTERED) == 1\n",
    "tests/test_left.py": "import os\nimport sys\n\nsys.path.append('/left')\nos.environ['LEFT'] = '1'\n\n\n"
    "def test_left():\n    assert '/left' in sys.path\n",
    "tests/test_clean.py": "import os\nimport sys\n\n\ndef test_clean():\n"
    "    assert '/left' not in sys.path and 'LEFT' not in os.environ and 'test_left' not in str(list(sys.modules))\n",
}
THREAD = "import threading\nimport time\n\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n\n\n"
DOUBLED, TRIPLED = PROGRAM.replace("2 * x", "x"), PROGRAM.replace("3 * x", "x")


@pytest.fixture
async def laboratory(tmp_path: Path) -> AsyncIterator[Laboratory]:
    async with open_laboratory(tmp_path, FILES) as opened:
        yield opened


@asynccontextmanager
async def open_laboratory(folder: Path, files: dict[str, str]) -> AsyncIterator[Laboratory]:
    for path, text in files.items():
        (folder / "source" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "source" / path).write_text(text)
    layer = await asyncio.to_thread(ensure_toolchain, Settings.from_environment().cache, ())
    backend, tree = NamespacesBackend(), load_source(str(folder / "source"))
    async with Laboratory(tree, backend, layer, 1) as opened:
        yield opened
    await backend.close()


def outcomes(result: JobResult) -> dict[str, tuple[str, str, str]]:
    return {
        test: (one.outcome, one.type, normalise_message(one.message))
        for test, one in result.tests.items()
        if not test.endswith("test_place")
    }


INIT, LAZILY, TEST = "double/__init__.py", "double/lazy.py", "tests/test_shared.py"
JOBS = [
    Job("whole", (TEST,)),
    Job("body", (TEST,), write={INIT: DOUBLED}),
    Job("ran while collected", (TEST,), write={INIT: TRIPLED}),
    Job("some, in another order", (f"{TEST}::TestTriple", f"{TEST}::test_order", f"{TEST}::test_double")),
    Job("one case", (f"{TEST}::test_double[2]",)),
    Job("not there", (f"{TEST}::test_drawn", f"{TEST}::test_none")),
    Job("until a failure", (TEST,), write={INIT: DOUBLED}, until_failure=True),
    Job("test file replaced", (TEST,), write={TEST: SHARED.replace("2 * factor", "3 * factor")}),
    Job("imported by a test", ("tests/test_lazy.py",), write={LAZILY: LAZY.replace("(1)", "(1), 1")}),
    Job("two files", ("tests/test_other.py", TEST), write={INIT: DOUBLED}),
    Job("import remembered", ("tests/test_other.py",), write={LAZILY: LAZY.replace("\nregister()", "\nregister(), 1")}),
    Job("leaves something", ("tests/test_left.py",)),
    Job("finds nothing", ("tests/test_clean.py",)),
]


async def test_collected_tests_end_as_those_that_a_run_collects(laboratory: Laboratory) -> None:
    await laboratory.run(JOBS, repetition=0)  # all is collected now that can be
    kept = await laboratory.run(JOBS, repetition=0)
    fresh = await laboratory.run(JOBS, repetition=0, fresh=True)
    for one in JOBS:
        assert outcomes(kept[one.id]) == outcomes(fresh[one.id]), one.id
        assert list(outcomes(kept[one.id])) == list(outcomes(fresh[one.id])), one.id
        assert (kept[one.id].ended, kept[one.id].exit_code) == ("done", fresh[one.id].exit_code), one.id
    assert kept["whole"].tests[f"{TEST}::test_place"].message == "CollectedFiles"
    assert [one.outcome for one in kept["body"].tests.values()][:2] == ["failed", "failed"]
    assert kept["ran while collected"].tests[f"{TEST}::TestTriple::test_four"].outcome == "failed"


async def test_a_test_file_that_ends_the_process_of_all_is_collected_by_each_run(tmp_path: Path) -> None:
    ending = "import os\nimport sys\n\nif sys.modules['loaded_package'].IN_MEMORY:\n    os._exit(0)\n\n\n"
    files = FILES | {"tests/test_ending.py": ending + "def test_ending():\n    pass\n"}
    async with open_laboratory(tmp_path, files) as laboratory:
        jobs = [Job("ending", ("tests/test_ending.py",)), Job("whole", (TEST,))]
        done = await laboratory.run(jobs, repetition=0)
        fresh = await laboratory.run(jobs, repetition=0, fresh=True)
        assert (done["ending"].ended, fresh["ending"].ended) == ("died", "done")
        assert outcomes(done["whole"]) == outcomes(fresh["whole"])


async def test_a_test_file_that_starts_threads_is_collected_by_each_run(tmp_path: Path) -> None:
    files = FILES | {"tests/test_thread.py": THREAD + "def test_thread():\n    assert threading.active_count() == 2\n"}
    async with open_laboratory(tmp_path, files) as laboratory:
        jobs = [Job("thread", ("tests/test_thread.py",)), Job("whole", (TEST,))]
        done = await laboratory.run(jobs, repetition=0)
        assert outcomes(done["thread"]) == {"tests/test_thread.py::test_thread": ("passed", "", "")}
        assert done["whole"].tests[f"{TEST}::test_place"].message == "NoneType"


async def test_files_that_are_collected_one_by_one_share_the_fixtures_of_their_folder(tmp_path: Path) -> None:
    counting = "import pytest\n\nMADE = []\n\n\n@pytest.fixture(scope='package')\ndef made():\n"
    using = "import tests\n\n\ndef test_made(made):\n    assert (made, tests.SET_UP) == ([1], [1])\n"
    files = FILES | {
        "tests/__init__.py": "SET_UP = []\n\n\ndef setup_module():\n    SET_UP.append(1)\n",
        "tests/conftest.py": counting + "    MADE.append(1)\n    return MADE\n",
        "tests/test_one.py": using,
        "tests/test_two.py": using.replace("(made):", "(made, pytestconfig):"),
        "tests/test_three.py": "import random\n\nrandom.random()\n" + using,
    }
    one, two, three = (f"tests/test_{name}.py" for name in ("one", "two", "three"))
    jobs = [Job(str(tests), tests) for tests in ((one,), (two,), (two, one), (one, three), (three, two, one))]
    async with open_laboratory(tmp_path, files) as laboratory:
        await laboratory.run(jobs, repetition=0)
        kept = await laboratory.run(jobs, repetition=0)
        fresh = await laboratory.run(jobs, repetition=0, fresh=True)
    for job in jobs:
        assert outcomes(kept[job.id]) == outcomes(fresh[job.id])
        assert {kind for kind, *_ in outcomes(kept[job.id]).values()} == {"passed"}
        assert list(outcomes(kept[job.id])) == [f"{test}::test_made" for test in job.tests]
