"""Imports the reference's package once and forks a worker for each version of its functions.

    worker_template.py ROOTS   (JSON; commands on standard input, one line each, states on standard output)

A program of its own, without pytest: a fork copies the page tables of its process, so that a worker, and its fork for
each test, cost a quarter of what they cost in the process that holds the tests. Not isolated, for making tasks alone.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from types import FunctionType
from typing import Any

import live_functions  # type: ignore[import-not-found]  # copied beside this file, as is the next
import splice_worker  # type: ignore[import-not-found]


class EndOfTest(Exception):
    """The test is over, and nothing of the package runs."""


class VersionWorker(splice_worker.Worker):  # type: ignore[misc]
    """Answers the judge in a process that answers it for other tests, too."""

    def __init__(self, *more: Any) -> None:
        super().__init__(*more)
        self._depth = 0

    def exchange(self, message: dict[str, Any] | None) -> dict[str, Any]:
        """Answers as any worker does."""
        self._depth += 1
        try:
            return dict(super().exchange(message))
        finally:
            self._depth -= 1

    def end(self) -> None:
        """Leaves the exchange; ends the process where the package waits for the answer to a question."""
        if self._depth > 1:
            os._exit(0)
        raise EndOfTest


def answer_all_tests(package: str, _modules: list[str], reads: int, writes: int) -> None:
    """Answers the judge for all tests in this process. Only a version that is not judged by itself may be answered for
    so: a test could depend on one before it, as it could where all run plain, in one process."""
    while True:
        try:
            frame = splice_worker.splice_codec.read_frame(reads)
            if frame.get("op") == "begin":
                recorded = {(module, name): set(fields) for module, name, fields in frame["classes"]}
                VersionWorker(package, recorded, reads, writes).exchange(None)
        except EndOfTest:
            continue
        except splice_worker.splice_codec.ChannelError:
            return


def serve(commands: int, states: int) -> None:
    """Gets ready for some modules and files, or forks a worker; answers with its process id, or 0 where it has to be
    started with files of its own."""
    config: dict[str, Any] = {}
    live = live_functions.LiveFunctions(set())
    for line in os.fdopen(commands):
        version = json.loads(line)
        if "files" in version:
            config, live = version, get_ready(version)
            os.write(states, f"{version['serial']} 1\n".encode())
            continue
        if os.fork():
            os.wait()
            continue
        fits = all(live.replace(path, text) for path, text in version["write"].items())
        os.setpgid(0, 0)  # a mutant can run for ever: its group is ended with the workers that it forks
        os.write(states, f"{version['serial']} {os.getpid() if fits else 0}\n".encode())
        if fits:
            reads, writes = os.open(version["calls"], os.O_RDONLY), os.open(version["answers"], os.O_WRONLY)
            serve_version = answer_all_tests if version["shared"] else splice_worker.serve
            serve_version(config["package"], config["modules"], reads, writes)
        os._exit(0)


def get_ready(config: dict[str, Any]) -> Any:
    """Imports modules, and returns the functions of some files. All that is in memory is kept from the collector: a
    collection in a worker would copy the memory of what it looks at."""
    for module in [config["package"], *config["modules"]]:
        importlib.import_module(module)
    for thing in gc.get_objects():
        if type(thing) is FunctionType:
            live_functions.FROZEN.setdefault(thing.__code__.co_filename, []).append(thing)
    gc.collect()
    gc.freeze()
    return live_functions.LiveFunctions(set(config["files"]))


def main() -> None:
    """Moves the pipes away from standard input and output, which the package must not reach, then serves."""
    commands, states = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    roots, sys.argv[:] = json.loads(sys.argv[1]), [""]
    sys.path[:0] = roots
    serve(commands, states)


if __name__ == "__main__":
    main()
