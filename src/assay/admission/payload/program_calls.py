"""Wraps a program and records each call: arguments, earlier files, output and resulting files.

    program_calls.py FOLDER NUMBER [ARGUMENT ...]

`FOLDER/programs.json` names the program of each number and its interpreter; a record is a file in `FOLDER/records`.
Paths among the arguments are recorded as `<1>`, `<2>` and so on, because a caller may draw their names. Standard input
is handed on unread. Standard library, Python 3.8. What is recorded is a measurement, never a verdict.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_ENTRIES = 400
MAX_FILE = 1 << 20
MAX_OUTPUT = 1 << 20
MAX_RECORDS = 200


def tree_of(top: str) -> dict[str, str] | None:
    """Returns relative names to digests below a path; None for a missing path."""
    if not os.path.lexists(top):
        return None
    if not os.path.isdir(top) or os.path.islink(top):
        return {"": content_of(top)}
    found: dict[str, str] = {}
    for at, folders, names in os.walk(top):
        folders.sort()
        for name in sorted(folders) + sorted(names):
            path = os.path.join(at, name)
            found[os.path.relpath(path, top)] = content_of(path)
            if len(found) >= MAX_ENTRIES:
                return found
    return found


def content_of(path: str) -> str:
    """Returns a short fingerprint of a file's content."""
    if os.path.islink(path):
        return "link " + os.readlink(path)
    if os.path.isdir(path):
        return "folder"
    if not os.path.isfile(path):
        return "special"
    try:
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read(MAX_FILE)).hexdigest()[:16]
    except OSError:
        return "unreadable"


def main(folder: str, number: str, arguments: Sequence[str]) -> int:
    """Runs the numbered program and returns its exit status."""
    with open(os.path.join(folder, "programs.json"), encoding="utf-8") as stream:
        program = json.load(stream)[number]
    names = {one: f"<{n}>" for n, one in enumerate(arguments, 1) if "/" in one or os.path.lexists(one)}
    tops = [*names, os.getcwd()] if os.getcwd() != "/" else list(names)
    before = [tree_of(top) for top in tops]
    done = subprocess.run([*program["interpreter"], program["path"], *arguments], stdout=subprocess.PIPE, check=False)
    sys.stdout.buffer.write(done.stdout)
    sys.stdout.flush()
    printed = done.stdout[:MAX_OUTPUT].decode("utf-8", "replace")
    for name in sorted(names, key=len, reverse=True):
        printed = printed.replace(name, names[name])
    record = {
        "program": number,
        "arguments": [names.get(one, one) for one in arguments],
        "before": before,
        "ok": done.returncode == 0,
        "printed": printed,
        "after": [tree_of(top) for top in tops],
    }
    records = os.path.join(folder, "records")
    if len(os.listdir(records)) < MAX_RECORDS:
        name = f"{time.time_ns():020d}-{os.getpid()}.json"
        with open(os.path.join(records, name), "w", encoding="utf-8") as out:
            json.dump(record, out)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
