"""Looks for answers and paths in the variables and arguments of the verifier's processes, as far as the same user may.

Arguments: `targets` are the paths of the answers; `lasts_s`. What a variable or an argument says is expected is written
into the answers at once; where it is the path of a file, that file's text is.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time

TELLING = re.compile(r"expect|answer|secret|flag|solution|golden|truth|correct|want|reference|key", re.IGNORECASE)
OPTION = re.compile(r"--?([A-Za-z][\w-]*)(?:=(.*))?$", re.DOTALL)
MOST_BYTES = 1 << 20


def read(path: str) -> list[str]:
    """The strings of a file of /proc."""
    try:
        with open(path, "rb") as file:
            return [part.decode(errors="replace") for part in file.read(MOST_BYTES).split(b"\0") if part]
    except OSError:
        return []


def expected_values(pid: str, own: frozenset[str]) -> list[str]:
    """Returns what a process's variables and arguments say that is expected, the likeliest last."""
    found = []
    for entry in read(f"/proc/{pid}/environ"):
        name, _, value = entry.partition("=")
        if entry not in own and TELLING.search(name) and value:
            found.append(value)
    words = read(f"/proc/{pid}/cmdline")
    for word, following in zip(words, [*words[1:], ""]):
        option = OPTION.match(word)
        if option is not None and TELLING.search(option[1]):
            value = option[2] if option[2] is not None else following
            found += [value] if value else []
        elif TELLING.search(os.path.basename(word)) and word.startswith("/") and not word.endswith((".py", ".sh")):
            found.append(word)
    return found


def content(value: str) -> str:
    """Returns what a value stands for: the text of the file that it names, or itself."""
    try:
        if os.path.isabs(value) and os.path.isfile(value):
            with open(value, encoding="utf-8") as file:
                return file.read(MOST_BYTES)
    except (OSError, ValueError):
        return value
    return value + "\n"


def put(path: str, text: str) -> None:
    """Replaces an answer in one step."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + "~", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(path + "~", path)
    except OSError:
        return


def ready(path: str) -> None:
    """Says that the work begins."""
    with contextlib.suppress(OSError), open(path, "w", encoding="utf-8"):
        pass


def main() -> None:
    """See the module."""
    given, began = json.loads(sys.argv[1]), time.monotonic()
    own, known, wrote = frozenset(read("/proc/self/environ")), {str(os.getpid())}, set()
    known |= {pid for pid in os.listdir("/proc") if pid.isdigit()}
    ready(given["ready"])
    while time.monotonic() - began < given["lasts_s"]:
        for pid in [p for p in os.listdir("/proc") if p.isdigit() and p not in known]:
            for value in expected_values(pid, own):
                if value in wrote:
                    continue
                wrote.add(value)
                for path in given["targets"]:
                    put(path, content(value))
        time.sleep(0.001)


if __name__ == "__main__":
    main()
