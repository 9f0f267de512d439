"""Runs spliced tests against several versions of the package, judge and worker in one sandbox, joined by pipes.

    splice_proof.py REQUEST REPLY

The tests are collected once on the unrepaired package, as the judge has it; each version of the worker's package then
gets a forked child of the judge. This is a measurement for making tasks: the two sides are not isolated here.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

import forked_tests  # type: ignore[import-not-found]  # copied beside this file, as all that follows
import loaded_package  # type: ignore[import-not-found]
import pytest
import splice_client  # type: ignore[import-not-found]
import splice_import  # type: ignore[import-not-found]
import splice_plugin  # type: ignore[import-not-found]
import splice_worker  # type: ignore[import-not-found]
import versions_together  # type: ignore[import-not-found]
from bare_items import BareOutcomes, run_items  # type: ignore[import-not-found]
from entry_trace import TestLoop  # type: ignore[import-not-found]

WORKER_TREE = "/tmp/worker-tree"
SHARED_WORKERS: list[WorkerTemplate] = []
"""The process that forks workers for all proofs of this sandbox; empty where each proof starts one."""
OPENING = (
    "import os, sys; os.dup2(os.open(sys.argv[1], os.O_RDONLY), 0); os.dup2(os.open(sys.argv[2], os.O_WRONLY), 1); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)
"""Opens two named pipes as standard input and output, and becomes the program that is named."""


class WorkerTemplate:
    """The process of `worker_template.py`, which forks a worker for each version of the package's functions."""

    def __init__(self, roots: list[str]) -> None:
        program = Path(__file__).with_name("worker_template.py")
        command = [sys.executable, "-B", str(program), json.dumps(roots)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._group = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        """Returns whether the process runs."""
        return self._process.poll() is None

    def prepare(self, splice: dict[str, Any], files: list[str]) -> bool:
        """Imports the modules of entry points, and gets ready for versions of some files; False if that fails."""
        modules = sorted({module for module, _ in splice["entries"]})
        return self._ask({"package": splice["package"], "modules": modules, "files": files}) > 0

    def start(self, write: dict[str, str], calls: str, answers: str, *, shared: bool) -> bool:
        """Starts a worker on two named pipes, which answers for all tests in one process where that is `shared`; False
        where it has to be started with files of its own."""
        self._group = self._ask({"write": write, "calls": calls, "answers": answers, "shared": shared})
        return self._group > 0

    def _ask(self, message: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        serial = str(time.monotonic_ns())  # the answer to a proof that was killed may come first
        try:
            self._process.stdin.write(json.dumps({**message, "serial": serial}).encode() + b"\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                answered, process = line.split()
                if answered == serial.encode():
                    return int(process)
        except (OSError, ValueError):
            pass
        return 0

    def stop(self) -> None:
        """Ends the worker that was started last, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._group, signal.SIGKILL)

    def end_workers(self) -> None:
        """Ends what an earlier proof left; the process waits for it."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        with contextlib.suppress(OSError, ValueError):
            for child in children.read_text(encoding="utf-8").split():
                os.kill(int(child), signal.SIGKILL)

    def close(self) -> None:
        """Ends the process; its pipes may still be held by a worker."""
        self._process.kill()
        self._process.wait()


def splice_in_memory(entries: list[list[str]]) -> bool:
    """Gives functions that are imported already the bodies that the judge's import hook gives them; False if one of
    them is not where its text is."""
    finder, (package,) = sys.meta_path[0], loaded_package.IN_MEMORY
    for name in sorted({module for module, _ in entries if module in sys.modules}):
        wanted = {qualname for module, qualname in entries if module == name}
        above = sys.modules.get(name.rpartition(".")[0])
        spec = finder.find_spec(name, getattr(above, "__path__", None))
        if spec is None or spec.loader is None:
            return False
        pending = [spec.loader.get_code(name)]  # type: ignore[attr-defined]
        while pending:
            code = pending.pop()
            pending += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
            if code.co_qualname in wanted:
                functions = package.functions_like(code)
                for function in functions:
                    function.__code__ = code
                if not functions:
                    return False
        vars(sys.modules[name])[splice_import._NAME] = sys.modules[splice_import.SPLICE_MODULE]
    return True


def start_shared(batch: dict[str, Any]) -> set[int]:
    """Starts the process that forks the workers of all proofs; returns it."""
    copy_tree(batch)
    if SHARED_WORKERS and not SHARED_WORKERS[0].is_alive():
        SHARED_WORKERS.clear()
    if not SHARED_WORKERS:
        SHARED_WORKERS.append(WorkerTemplate([WORKER_TREE + path for path in batch["paths"]]))
    SHARED_WORKERS[0].end_workers()
    return {SHARED_WORKERS[0].pid}


def copy_tree(batch: dict[str, Any]) -> None:
    """Copies the reference for the workers, once: each proof leaves it as it was."""
    if not Path(WORKER_TREE).exists():
        shutil.copytree(batch["root"], WORKER_TREE + batch["root"], symlinks=True)


class ProofPlugin(splice_plugin.SplicePlugin):  # type: ignore[misc]
    """The judge's plugin, in a process that may run the tests on several versions."""

    _client: Any

    def __init__(self, config: dict[str, Any], descriptors: tuple[int, int], tell: Any) -> None:
        super().__init__(config, descriptors, tell)
        self._arguments = descriptors, config["package"], self._classes, config["call_timeout_s"], self._report

    def renew_client(self) -> None:
        """Forgets how the worker of another version behaved."""
        self._client = splice_client.Client(*self._arguments)


class OnlyTests:
    """The pytest plugin that leaves out the tests of a file that are not asked for, as the judge does."""

    __test__ = False

    def __init__(self, names: list[str]) -> None:
        self._names = frozenset(names)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keeps the tests asked for, in the order of their files."""
        items[:] = [item for item in items if item.nodeid in self._names]


class Proof:
    """One job: some tests, and versions of the package that answer them."""

    def __init__(self, batch: dict[str, Any], job: dict[str, Any], aside: Path) -> None:
        self._batch, self._job, self._aside = batch, job, aside
        self._messages: list[dict[str, Any]] = []
        self._roots = [WORKER_TREE + path for path in batch["paths"]]
        self._descriptors = os.pipe()
        self._template: Any = None
        self._is_prepared = False
        self._plugin: Any = None

    def run(self) -> dict[str, Any]:
        """Collects the tests with their entry points spliced, and runs all versions."""
        files = sorted({path for version in self._job["versions"] for path in version["write"]})
        own = [] if SHARED_WORKERS and not self._job["base"] else [WorkerTemplate(self._roots)]
        self._template = (own or SHARED_WORKERS)[0]
        self._is_prepared = self._template.prepare(self._job["splice"], [WORKER_TREE + path for path in files])
        forked_tests.prepare(self._batch)
        sys.dont_write_bytecode = True
        self._plugin = plugin = ProofPlugin(self._job["splice"], self._descriptors, self._add_message)
        if loaded_package.IN_MEMORY:
            self._messages.clear()  # that its modules are imported already
            if not splice_in_memory(self._job["splice"]["entries"]):
                return {"id": self._job["id"], "ended": "cold"}
        loop, recorder = TestLoop(self._run_versions), BareOutcomes(self._job)
        plugins = [OnlyTests(self._job["only"]), plugin, recorder, loop]
        forked_tests.start_pytest(self._batch, self._job, plugins)
        for template in own:
            template.close()
        unspliced = [message["text"] for message in self._messages if message["kind"] == "unspliced"]
        return {"id": self._job["id"], "problems": [*recorder.problems, *unspliced], **loop.result}

    def _add_message(self, kind: str, **fields: Any) -> None:
        self._messages.append({"kind": kind, **fields})

    def _run_versions(self, session: Any) -> dict[str, Any]:
        items = [message for message in self._messages if message["kind"] == "item"]
        collected = [{name: item[name] for name in ("id", "marks", "parameters")} for item in items]
        gc.collect()
        gc.freeze()  # a collection in a child would copy the memory of all that it looks at
        versions = list(enumerate(self._job["versions"]))
        name = versions[0][1]["name"]
        found = {name: self._find_outcomes(session, versions[0][1], 0)}
        outcomes = found[name].get("tests", {})
        # The first version is the reference: nothing that follows keeps the candidate if a needed test fails on it.
        if all(outcomes.get(test) == "passed" for test in self._job["needed"]):
            if self._job["shared"] and self._is_prepared and len(versions) > 2:
                found |= self._find_together(session, versions, outcomes)
            for serial, version in versions:
                if version["name"] not in found:
                    found[version["name"]] = self._find_outcomes(session, version, serial)
        return {"ended": "done", "collected": collected, "versions": found}

    def _find_together(
        self, session: Any, versions: list[tuple[int, dict[str, Any]]], expected: dict[str, str]
    ) -> dict[str, Any]:
        """Runs the tests on all versions but the first in one process, each with a worker that answers all of them.

        The results count only if the first version, run last, has the outcomes that are expected. One has no result
        here whose tests take long, or whose worker is no fork, ends early or breaks the rules.
        """

        def work() -> dict[str, Any]:
            found, clock = {}, versions_together.VersionClock()
            for serial, version in [*versions[1:], versions[0]]:
                with self._forked_worker(version["write"], f"{serial}.together", shared=True) as pipes:
                    if pipes is None:
                        continue
                    run = partial(self._run_version, session, pipes)
                    one = clock.run(versions_together.SHARE * self._job["cpu_s"], run)
                if not clock.is_over and not _breaks_rules(one):
                    found[version["name"]] = one
            reference = found.pop(versions[0][1]["name"], {})
            return found if reference.get("tests") == expected else {}

        wide = {**self._job, "cpu_s": (1 + versions_together.SHARE * len(versions)) * self._job["cpu_s"]}
        result = forked_tests.in_child(self._batch, wide, self._aside, lambda: {"found": work()})
        self._template.end_workers()
        return dict(result.get("found", {}))

    def _find_outcomes(self, session: Any, version: dict[str, Any], serial: int) -> dict[str, Any]:
        """Runs the tests on one version. On the reference, and where a worker ended early or broke the rules, each test
        gets a process of the worker's of its own, as the judge gives it."""
        found: dict[str, Any] = {}
        for shared in (True, False) if serial and self._job["shared"] else (False,):
            with self._worker(version["write"], serial, shared=shared) as pipes:
                work = partial(self._run_version, session, pipes)
                found = forked_tests.in_child(self._batch, self._job, self._aside, work)
            if "tests" in found and not _breaks_rules(found):
                break
        return found

    @contextlib.contextmanager
    def _forked_worker(self, write: dict[str, str], name: str, *, shared: bool) -> Iterator[tuple[str, str] | None]:
        """Forks a worker with a version of the package; yields the names of the pipes to it and from it, or None where
        it has to be started with files of its own."""
        pipes = self._make_pipes(name)
        texts = {WORKER_TREE + path: text for path, text in write.items()}
        if not self._is_prepared or not self._template.start(texts, *pipes, shared=shared):
            yield None
            return
        try:
            yield pipes
        finally:
            self._template.stop()

    def _make_pipes(self, name: str) -> tuple[str, str]:
        calls, answers = f"{self._aside}.{name}.calls", f"{self._aside}.{name}.answers"
        os.mkfifo(calls)
        os.mkfifo(answers)
        return calls, answers

    @contextlib.contextmanager
    def _worker(self, write: dict[str, str], serial: int, *, shared: bool) -> Iterator[tuple[str, str]]:
        """Starts a worker with a version of the package; yields the names of the pipes to it and from it."""
        with self._forked_worker(write, f"{serial}.{int(shared)}", shared=shared) as pipes:
            if pipes is not None:
                yield pipes
                return
        calls, answers = self._make_pipes(f"{serial}.{int(shared)}.files")
        texts = {WORKER_TREE + path: text for path, text in write.items()}
        with forked_tests.replaced_files(texts, serial):
            modules = sorted({module for module, _ in self._job["splice"]["entries"]})
            arguments = [self._job["splice"]["package"], json.dumps(self._roots), json.dumps(modules)]
            worker = [sys.executable, "-I", "-B", splice_worker.__file__, *arguments]
            opening = [sys.executable, "-I", "-c", OPENING, calls, answers, *worker]
            with subprocess.Popen(opening, start_new_session=True) as process:
                yield calls, answers
                os.killpg(process.pid, signal.SIGKILL)

    def _run_version(self, session: Any, pipes: tuple[str, str]) -> dict[str, Any]:
        """Runs the tests in this process, which may run other versions before and after, and nothing else."""
        writes, reads = os.open(pipes[0], os.O_WRONLY), os.open(pipes[1], os.O_RDONLY)
        for at, known in enumerate(self._descriptors):
            os.dup2((reads, writes)[at], known)
            os.set_blocking(known, False)
        for opened in (reads, writes):
            os.close(opened)
        self._plugin.renew_client()
        self._messages.clear()
        outcomes = run_items(session, list(session.items), _do_nothing, _do_nothing)
        calls = {message["id"]: message["count"] for message in self._messages if message["kind"] == "calls"}
        refused = sorted(
            {(message["id"], message["why"]) for message in self._messages if message["kind"] == "refusal"}
        )
        texts = sorted({message["text"][:200] for message in self._messages if message["kind"] == "refusal"})[:20]
        return {"tests": outcomes, "calls": calls, "refused": refused, "texts": texts}


def _breaks_rules(result: dict[str, Any]) -> bool:
    """Returns whether a worker ended early or answered against the protocol."""
    return bool({why for _, why in result["refused"]} & {"closed", "protocol"})


def _do_nothing(_test: str) -> None:
    pass


def main(request: str, reply: str) -> None:
    """Runs the jobs; each result is one line of the reply."""
    batch = json.loads(Path(request).read_bytes())
    aside = Path(reply + ".child")
    # The worker's copy holds the reference; only the judge's tree is made unrepaired.
    copy_tree(batch)
    with Path(reply).open("w", encoding="utf-8") as file:
        for serial, job in enumerate(batch["jobs"]):
            base = {WORKER_TREE + path: text for path, text in job["base"].items()}
            with forked_tests.replaced_files(base, serial), forked_tests.replaced_files(job["write"], serial):
                wide = {**job, "cpu_s": (1 + len(job["versions"])) * job["cpu_s"]}
                proof = Proof(batch, job, aside.with_suffix(f".{serial}.version"))
                result = loaded_package.in_child_or_here(batch, wide, aside, proof.run)
            for package in loaded_package.IN_MEMORY:
                package.has_refused = package.has_refused or result["ended"] == "cold"
            file.write(json.dumps(result) + "\n")
            file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:3])
