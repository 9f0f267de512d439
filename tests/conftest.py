"""Shared paths of the test suite."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from assay import gc_tuning
from assay.environments.interface import Backend, WorkspaceSpec
from assay.environments.workspace import choose
from assay.environments.workspace.backend_probe import ProbeResult, probe_backend
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.errors import EnvironmentFailure
from tests.sampling import SHARE, draw_long_tests

# A busy machine is no failure of a property. `pytest --hypothesis-profile=thorough` tries ten times as many examples
# where a test does not count its own; `make quick` tries a fifth.
settings.register_profile("assay", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile("assay")
# Nothing of what collection makes becomes garbage: scanning it again and again took nearly half of collection.
gc.disable()
# Images for containers set this often. Here each worker and each program that a test starts would compile all again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Set before NumPy and PyTorch are imported: small arrays gain nothing from threads, which wait actively for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parent.parent
LONG = (
    "tests/learning/export/test_consumers.py",
    "tests/synthesis/test_separation.py",
    "tests/learning/test_killed.py",
    "tests/gateway/tokens/",
    "tests/agents/cheats/test_cheats.py",
    "tests/harnesses/",
    "tests/verify/test_unjudgeable.py",
    "tests/admission/test_how_to.py",
    "tests/forgery/",
    "tests/verify/splice/test_lying_workers.py",
    "tests/admission/test_differential.py",
    "tests/rollout/exchange/test_stored_demo.py",
    "tests/verify/calls/test_judging_by_calls.py",
    "tests/synthesis/test_repository.py",
    "tests/learning/",
    "tests/benchmarks/",
    "tests/holes/",
    "tests/rollout/",
    "tests/admission/",
    "tests/viewer/",
    "tests/sandbox/",
    "tests/environments/",
    "tests/formats/",
    "tests/store/",
    "tests/synthesis/",
    "tests/agents/",
    "tests/verify/",
)
"""They begin first, the longest before the rest, so that no worker waits for another at the end."""


UNITS = {
    "tests/learning/trainer/": "torch",
    "tests/learning/curation/test_student.py": "torch",
    "tests/gateway/tokens/": "torch",
    "tests/docs/test_agent_to_rows.py": "torch",
    "tests/statistics/": "scipy",
    "tests/experiments/": "scipy",
    "tests/viewer/": "viewer",
    "tests/adversary/": "adversary",
}
"""Files that one worker runs, of those that import PyTorch or SciPy or share what takes seconds to make."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Returns the scheduler of `--dist loadfile`, which keeps units together as it does files."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class UnitScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return next((unit for start, unit in UNITS.items() if file.startswith(start)), file)

    return UnitScheduling(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves test files and folders without a quick test unread for the quick tests: importing them, and what their
    `conftest.py` imports, takes longer than the tests."""
    wanted = [b"mark.%b" % name.encode() for name in ("quick", "newest") if name in config.option.markexpr]
    if not wanted:
        return None
    files = [collection_path] if collection_path.is_file() else collection_path.rglob("test_*.py")
    if collection_path.is_file() and not collection_path.match("test_*.py"):
        return None
    texts = map(Path.read_bytes, files)
    return None if any(mark in text for text in texts for mark in wanted) else True


def pytest_addoption(parser: pytest.Parser) -> None:
    about = "run a tenth of the tests marked `long`, drawn by this seed, such as a commit (default: all of them)"
    parser.addoption("--sample", metavar="SEED", default="", help=about)


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.option.sample
    return f"long tests: one of {SHARE}, drawn by --sample={seed}; without it all of them" if seed else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Draws long tests, if a sample is asked for, and puts files that take minutes first."""
    if config.option.sample:
        drawn = draw_long_tests(items, config.option.sample)
        left_out = [item for item in items if item.get_closest_marker("long") and item not in drawn]
        items[:] = [item for item in items if item in drawn or not item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=left_out)
    items.sort(key=lambda item: _rank(item.nodeid.partition("::")[0]))


@cache
def _rank(file: str) -> int:
    return next((n for n, place in enumerate(LONG) if file.startswith(place)), len(LONG))


def pytest_collection_finish() -> None:
    """Exempts what was collected from the garbage collector, which begins here."""
    gc.freeze()
    gc.enable()


def pytest_configure() -> None:
    """Programs started by tests can be interrupted, also where the tests run in the background of a shell, which then
    ignores interruptions for all of its children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


PROBING = ("tests/environments/", "tests/sandbox/")
"""Tests of the probe itself: there it is made each time."""
_probes: list[ProbeResult] = []


async def probe_once(backend: Backend, *, isolated: bool = True) -> ProbeResult:
    """Returns the result of this process's first complete probe of the ordinary sandbox; other sandboxes are probed."""
    if type(backend) is not NamespacesBackend or os.environ.get("PYTEST_CURRENT_TEST", "").startswith(PROBING):
        return await probe_backend(backend, isolated=isolated)
    if not _probes:
        result = await probe_backend(backend, isolated=isolated)
        if result.problem is not None or not all(result.passed.values()):
            return result
        _probes.append(result)
    return _probes[0]


@pytest.fixture(scope="session", autouse=True)
def one_probe() -> Iterator[None]:
    """Runs probe the sandbox before their first attempt: of hundreds in one process the first is enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, "probe_backend", probe_once)
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real recorded runs beside the checkout; the test skips where they are absent."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("../shared/data is not here: tests on real recorded runs need it")
    return folder


@pytest.fixture
def thresholds(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int, int]]:
    """Python's default `gc` thresholds, independent of servers in other tests of this process."""
    before, own = gc.get_threshold(), (700, 10, 10)
    monkeypatch.setattr(gc_tuning, "_requests", gc_tuning._ThresholdRequests())
    gc.set_threshold(*own)
    yield own
    gc.set_threshold(*before)


@pytest.fixture
async def sandboxes() -> AsyncIterator[Backend]:
    """Real sandboxes; the test skips where there are none."""
    backend = NamespacesBackend()
    try:
        await (await backend.open(WorkspaceSpec())).close()
    except EnvironmentFailure as exc:
        pytest.skip(f"no namespaces here: {exc}")
    yield backend
    await backend.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if subprocess.run(argv, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
