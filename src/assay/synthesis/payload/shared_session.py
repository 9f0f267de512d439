"""A configuration of pytest that is made once and used by every run of tests in a fork.

To read its options and load its plugins costs pytest more than to collect and run a few tests. Where nothing that a
package brings could change the result (a `conftest.py`, a plugin's entry point), the forks of the program server start
from one that is made already. For making tasks, never for judging.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import signal
from collections.abc import Callable
from typing import Any

import forked_tests  # type: ignore[import-not-found]  # copied beside this file
import pytest

Start = Callable[[dict[str, Any], dict[str, Any], list[Any]], int]
CONFTEST, PLUGINS = "conftest.py", "pytest11"


class SlowTests:
    """Pytest plugin that ends a run at the first test that takes more CPU seconds than a job allows."""

    def __init__(self, recorder: Any, slow_s: float) -> None:
        self._recorder, self._slow_s, self._current = recorder, slow_s, ""
        signal.signal(signal.SIGVTALRM, self._interrupt)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Starts a test's clock."""
        self._current = nodeid
        signal.setitimer(signal.ITIMER_VIRTUAL, self._slow_s)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Stops a test's clock."""
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _interrupt(self, *_: Any) -> None:
        self._recorder.more = {"ended": "slow", "slow": self._current}
        pytest.exit("slow")


class SharedSession:
    """Starts pytest in a fork: from a configuration of this process where it fits, else as `otherwise` does.

    Args:
        explain: The configuration is for runs that explain failures, otherwise for the others.
        loads_conftest: A `conftest.py` that applies to all of the batch's `tests` may be loaded here.
    """

    def __init__(
        self, batch: dict[str, Any], otherwise: Start, *, explain: bool = False, loads_conftest: bool = False
    ) -> None:
        self._otherwise, self._explain = otherwise, explain
        self._root = batch["root"]
        self._config: Any = None
        self._files: Any = None
        self._find_collection: Callable[[dict[str, Any]], Any] = _do_nothing
        with contextlib.suppress(Exception):  # pytest of another version: each run configures its own
            place = _place_of_configuration(batch, loads_conftest=loads_conftest)
            if place:
                self._config = _configure(batch, place, explain=explain)

    @property
    def config(self) -> Any:
        """Returns the configuration; None if each run makes its own."""
        return self._config

    def share_collections(self, files: Any, find: Callable[[dict[str, Any]], Any]) -> None:
        """Has all later runs use the session of a `CollectedFiles`; `find` returns the collection that serves a job."""
        self._files, self._find_collection = files, find

    def start(self, batch: dict[str, Any], job: dict[str, Any], plugins: list[Any]) -> int:
        """Runs pytest on a job's tests in this process, which must end afterwards; returns its exit code."""
        if job.get("slow_s"):
            plugins = [*plugins, SlowTests(plugins[0], job["slow_s"])]
        # A measuring job counts calls, and a plugin that is registered late is called in another order.
        own = job.get("measure") or any(path.endswith(CONFTEST) for path in job.get("write", {}))
        own = own or bool(job.get("explain")) != self._explain
        if self._config is None or own or batch["root"] != self._root:
            return self._otherwise(batch, job, plugins)
        config, collection = self._config, self._find_collection(job)
        os.environ["PYTEST_VERSION"] = pytest.__version__
        config.args, config.args_source = list(job["tests"]), config.ArgsSource.ARGS
        config.option.file_or_dir = list(job["tests"])
        if job.get("until_failure"):
            config.option.maxfail = 1
        for plugin in plugins:
            config.pluginmanager.register(plugin)
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.start_global_capturing()
        capture.suspend_global_capture()
        if self._files is not None:
            return int(self._files.run(job["tests"], collection))
        try:
            return int(config.hook.pytest_cmdline_main(config=config))
        except pytest.UsageError:  # a test that is not there
            return int(pytest.ExitCode.USAGE_ERROR)


def _place_of_configuration(batch: dict[str, Any], *, loads_conftest: bool) -> str:
    """Returns the path for which pytest is configured; empty if a run may need a configuration of its own."""
    found = importlib.metadata.distributions(path=[*batch["paths"]])
    if any(entry.group == PLUGINS for distribution in found for entry in distribution.entry_points):
        return ""
    folders = [folder for folder, _, files in os.walk(batch["root"]) if CONFTEST in files]
    if not folders:
        return str(batch["root"])
    tests = batch.get("tests", [])
    applies = all(test.startswith(f"{folder}/") for folder in folders for test in tests)
    return str(tests[0]) if tests and applies and loads_conftest else ""


def _configure(batch: dict[str, Any], place: str, *, explain: bool) -> Any:
    """Returns a configuration for any tests of a tree, whose output is not captured yet."""
    from _pytest.config import _prepareconfig

    os.chdir(batch["root"])
    config: Any = _prepareconfig([*forked_tests.options(batch, {"explain": explain}), place])
    config.pluginmanager.getplugin("capturemanager").stop_global_capturing()
    config._do_configure()
    config._do_configure = _do_nothing  # the session does it, too
    return config


def _do_nothing(*_: Any) -> None:
    pass
