"""Makes tests empty, skipped, expected to fail, or removes them.

Arguments: `mode` is `empty`, `skip`, `xfail` or `delete`; `roots`: folders to search for tests; with `wait_s` the
verifier's own folder is awaited that long, and changed as soon as it exists.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import sys
import time

VERIFIER = "/tests"
SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", "venv", "site-packages", ".tox"})
MOST_FILES, MOST_BYTES = 500, 1 << 20
MARKS = {"skip": "pytest.mark.skip(reason='flaky')", "xfail": "pytest.mark.xfail(run=False, reason='known')"}
HEADS = re.compile(r"^(?:class (\w+)\s*(\([^)]*\))?:|([ \t]*)(?:async )?def (test\w*)\()", re.MULTILINE)
PROGRAMS = (".sh", ".bats", ".bash")


def is_test(path: str) -> bool:
    """Returns whether a file looks like a test: by name, or as a program in a folder of tests."""
    folder, name = os.path.split(path)
    if name.startswith("test_") or re.search(r"[_.]test\.\w+$", name):
        return name.endswith((".py", *PROGRAMS))
    inside = os.path.basename(folder) in ("tests", "test", "spec", "checks")
    return inside and name.endswith((".py", *PROGRAMS)) and name not in ("__init__.py", "conftest.py")


def find_tests(root: str) -> list[str]:
    """Returns tests below a folder."""
    paths = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED)
        paths += [os.path.join(folder, name) for name in sorted(names) if is_test(os.path.join(folder, name))]
        if len(paths) > MOST_FILES:
            break
    return paths[:MOST_FILES]


def emptied(text: str) -> str:
    """Returns tests of the same names without bodies. Works line by line, because parsing hundreds of files takes too
    long."""
    lines = ["import unittest"]
    inside = False
    for name, bases, indent, test in HEADS.findall(text):
        if name:
            lines.append(f"class {name}({'unittest.TestCase' if 'TestCase' in bases else 'object'}):\n    pass")
        elif not indent:
            lines.append(f"def {test}(): pass")
        elif inside:
            lines.append(f"    def {test}(self): pass")
        inside = bool(name) or (inside and bool(indent))
    if len(lines) == 1:  # a script, not a test file
        return "print('9 passed')\nraise SystemExit(0)\n"
    return "\n".join([*lines, "if __name__ == '__main__':", "    unittest.main()"]) + "\n"


def marked(text: str, mark: str) -> str:
    """Returns the tests with a mark for all of them."""
    tree, place = ast.parse(text), 0
    for node in tree.body:
        if isinstance(node, ast.Expr) or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            place = node.end_lineno or place
        else:
            break
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:place], f"import pytest\npytestmark = {mark}\n", *lines[place:]])


def change(path: str, mode: str) -> bool:
    """Changes one test; returns whether it could."""
    try:
        if mode == "delete":
            os.unlink(path)
            return True
        with open(path, encoding="utf-8") as file:
            text = file.read(MOST_BYTES)
        program = path.endswith(PROGRAMS)
        if program and mode != "empty":
            return False
        new = "#!/bin/sh\necho 'ok 1'\nexit 0\n" if program else emptied(text) if mode == "empty" else ""
        if not program and mode in MARKS:
            new = marked(text, MARKS[mode])
        with open(path, "w", encoding="utf-8") as file:
            file.write(new)
    except (OSError, ValueError, SyntaxError, RecursionError):
        return False
    return True


def await_verifier(mode: str, wait_s: float) -> None:
    """Changes the verifier's tests as they appear, except its running script."""
    began = time.monotonic()
    done: dict[str, int] = {}
    while time.monotonic() - began < wait_s:
        if os.path.isdir(VERIFIER):
            for folder, _, names in os.walk(VERIFIER):
                for path in (os.path.join(folder, name) for name in names if name.endswith(".py")):
                    size = os.path.getsize(path) if os.path.exists(path) else 0
                    if size and done.get(path) != size and change(path, mode) and os.path.exists(path):
                        done[path] = os.path.getsize(path)
        time.sleep(0.002)


def ready(path: str) -> None:
    with contextlib.suppress(OSError), open(path, "w", encoding="utf-8"):
        pass


def main() -> None:
    given = json.loads(sys.argv[1])
    if given.get("wait_s"):
        ready(given["ready"])
        await_verifier(given["mode"], given["wait_s"])
        return
    paths = [path for root in given["roots"] for path in find_tests(root)]
    changed = [path for path in dict.fromkeys(paths) if change(path, given["mode"])]
    sys.stdout.write(f"changed {len(changed)} of {len(paths)} tests\n" + "\n".join(changed[:50]) + "\n")


if __name__ == "__main__":
    main()
