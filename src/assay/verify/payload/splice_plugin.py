"""The judge's pytest plugin: selects the entry points that each test calls at the worker, and reports the calls.

It runs with pytest, the tests and the original package in a sandbox without files of the agent's. The recorder of
`assay_supervisor.child` records the results; this plugin adds each refusal, the number of calls and the collected
tests.
"""

from __future__ import annotations

import re

import pytest
import splice_import  # type: ignore[import-not-found]  # the folder of this file, on the path when it is loaded
from splice_client import Client  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_ADDRESS = re.compile(r"0x[0-9a-f]{4,}")


def describe_item(item: Any) -> dict[str, Any]:
    """Returns a collected test as the plan records it: its id, its marks and its parameters, without addresses."""
    marks = [
        _ADDRESS.sub("0x", f"{mark.name}{mark.args!r}{sorted(mark.kwargs.items())!r}") for mark in item.iter_markers()
    ]
    callspec = getattr(item, "callspec", None)
    parameters = _ADDRESS.sub("0x", repr(sorted(callspec.params.items(), key=lambda p: p[0]))) if callspec else ""
    return {"id": item.nodeid, "marks": marks, "parameters": parameters[:2000]}


class SplicePlugin:
    """Replaces entry points and calls the worker.

    Args:
        config: `package`, `entries`, `tests` (id to uses), `guards`, `classes`, `guard_classes`, `sources` and
            `call_timeout_s`, from the plan.
        descriptors: For reading from and writing to the worker; None: `attach` gives them, before the first test.
        tell: Sends a message to the supervisor.
    """

    def __init__(self, config: dict[str, Any], descriptors: tuple[int, int] | None, tell: Callable[..., None]) -> None:
        self._tell = tell
        self._test = ""
        self._uses: dict[str, dict[str, Any]] = config["tests"]
        self._active: dict[str, Any] = {}
        self._by_file: dict[str, dict[str, Any]] = {}
        self._guards = frozenset(config["guards"])
        self._classes, self._guard_classes = (
            {(module, qualname): frozenset(fields) for module, qualname, fields in config[name]}
            for name in ("classes", "guard_classes")
        )
        self._client = Client(descriptors, config["package"], self._classes, config["call_timeout_s"], self._report)
        self.attach = self._client.attach
        functions = {"is_active": self.is_active, "call": self.call, "iterate": self.iterate}
        splice_import.install(config["entries"], config["sources"], functions, self._problem)

    def is_active(self, key: str) -> bool:
        """Returns whether an entry point is currently called at the worker."""
        return key in self._active

    def call(self, key: str, arguments: Any) -> Any:
        """Replaces the body of an entry point."""
        return self._client.call(key.split(":"), self._active[key], arguments)

    def iterate(self, key: str, arguments: Any) -> Iterator[Any]:
        """Replaces the body of an entry point that is a generator function."""
        return self._client.iterate(key.split(":"), self._active[key], arguments)

    def _report(self, kind: str, text: str) -> None:
        self._tell("refusal", id=self._test, why=kind, text=text[:500])

    def _problem(self, text: str) -> None:
        self._tell("unspliced", text=text[:500])

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Reports the collected tests."""
        for item in session.items:
            self._tell("item", **describe_item(item))

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Opens and ends a test; its worker starts at its first call."""
        self._test = item.nodeid
        self._client.classes = self._guard_classes if item.nodeid in self._guards else self._classes
        before = self._client.calls
        yield
        self._active = {}
        self._client.end_test()
        self._tell("calls", id=item.nodeid, count=self._client.calls - before)
        self._test = ""

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """Activates the entry points of the file's deciding tests, because the set-up may serve any of them."""
        self._active = self._of_file(item)
        yield
        self._active = {}

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Activates the test's own entry points."""
        self._active = self._uses.get(item.nodeid, {})
        yield
        self._active = {}

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """Activates the same entry points as the set-up."""
        self._active = self._of_file(item)
        yield
        self._active = {}

    def _of_file(self, item: pytest.Item) -> dict[str, Any]:
        if item.nodeid not in self._uses:
            return {}
        file = item.nodeid.partition("::")[0]
        if file not in self._by_file:
            found = self._by_file[file] = {}
            for name, uses in self._uses.items():
                if name.partition("::")[0] == file and name not in self._guards:
                    for key, use in uses.items():
                        found[key] = _join_uses(found[key], use) if key in found else use
        return self._by_file[file]


def _join_uses(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Returns what either of two uses of an entry point allows."""
    joined: dict[str, Any] = {}
    for name in ("answers", "inside", "handed"):
        recorded = [use[name] for use in (one, other)]
        joined[name] = None if None in recorded else sorted({kind for kinds in recorded for kind in kinds})
    more = [change for change in other["changes"] if change not in one["changes"]]
    return {"changes": [*one["changes"], *more], **joined}
