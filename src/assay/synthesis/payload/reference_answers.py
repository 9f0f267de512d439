"""Answers requests on standard input by a Python function, one JSON line each. Standard library alone.

Started as `reference_answers.py`; `reference_call.json` beside it names the function, its parameters and import roots.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import pathlib
import signal
import sys
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
MAX_ITEMS = 1000
"""Items of an iterator that are answered."""
CPU_S = 1.0
MAX_ENDLESS = 4


class OutOfTime(BaseException):
    """Raised by the clock inside a call."""


def _stop(_signal: int, _frame: Any) -> None:
    raise OutOfTime


def call(function: Any, about: dict[str, Any], request: dict[str, Any]) -> Any:
    """Calls the function with arguments by name; those before `*args` and positional-only ones go by position."""
    first = about["parameters"] if about["rest"] in request else about["positional_only"]
    given = [request.pop(name) for name in first if name in request]
    result = function(*given, *request.pop(about["rest"], ()), **request)
    return list(itertools.islice(result, MAX_ITEMS)) if hasattr(result, "__next__") else result


def answer(function: Any, about: dict[str, Any], line: str) -> str:
    """Returns the line for one request."""
    try:
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        found = {"result": call(function, about, json.loads(line))}
        return json.dumps(found, allow_nan=False)
    except Exception as exc:  # noqa: BLE001 - whatever the function raises is its answer
        return json.dumps({"error": type(exc).__name__})
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def main() -> None:
    """Answers all requests; ends early after several without an end."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    about = json.loads((HERE / "reference_call.json").read_text())
    sys.path[:0] = [str(HERE / root) for root in about["roots"]]
    sys.dont_write_bytecode = True
    function = getattr(importlib.import_module(about["module"]), about["name"])
    signal.signal(signal.SIGPROF, _stop)
    endless = 0
    for line in sys.stdin:
        try:
            out.write(answer(function, about, line) + "\n")
        except OutOfTime:
            endless += 1
            out.write('{"error": "OutOfTime"}\n')
            if endless >= MAX_ENDLESS:
                break
    out.flush()


if __name__ == "__main__":
    main()
