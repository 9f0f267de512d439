"""Programs that run another program, and the commands or scripts they pass on."""

from __future__ import annotations

import re
from typing import NamedTuple

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
# Program: its options that take a word, and how many words stand before what it runs.
_WRAPPERS: dict[str, tuple[frozenset[str], int]] = {
    "sudo": (frozenset({"-u", "-g", "-h", "-p", "-C", "-T", "-D", "-R", "--user", "--group"}), 0),
    "doas": (frozenset({"-u", "-C"}), 0),
    "env": (frozenset({"-u", "--unset", "-C", "--chdir", "-S"}), 0),
    "timeout": (frozenset({"-k", "--kill-after", "-s", "--signal"}), 1),
    "gtimeout": (frozenset({"-k", "--kill-after", "-s", "--signal"}), 1),
    "nice": (frozenset({"-n", "--adjustment"}), 0),
    "ionice": (frozenset({"-c", "-n", "-p"}), 0),
    "nohup": (frozenset(), 0),
    "setsid": (frozenset(), 0),
    "stdbuf": (frozenset({"-i", "-o", "-e"}), 0),
    "unbuffer": (frozenset(), 0),
    "time": (frozenset({"-f", "-o"}), 0),
    "exec": (frozenset({"-a"}), 0),
    "command": (frozenset(), 0),
    "builtin": (frozenset(), 0),
    "strace": (frozenset({"-e", "-o", "-p", "-s"}), 0),
    "xvfb-run": (frozenset({"-s", "-n", "--server-args"}), 0),
    "taskset": (frozenset(), 1),
    "flock": (frozenset({"-w", "-E"}), 1),
    "xargs": (frozenset({"-n", "-I", "-P", "-L", "-d", "-s", "-a", "-E"}), 0),
    "watch": (frozenset({"-n", "--interval"}), 0),
    "chroot": (frozenset(), 1),
    "docker-exec": (frozenset({"-e", "--env", "-u", "--user", "-w", "--workdir", "--env-file"}), 1),
    "conda-run": (frozenset({"-n", "--name", "-p", "--prefix", "--cwd"}), 0),
    "uv-run": (frozenset({"--with", "--python", "-p", "--extra", "--group", "--directory", "--project"}), 0),
}
_PAIRED = {
    ("docker", "exec"): "docker-exec",
    ("podman", "exec"): "docker-exec",
    ("conda", "run"): "conda-run",
    ("mamba", "run"): "conda-run",
    ("micromamba", "run"): "conda-run",
    ("uv", "run"): "uv-run",
    ("poetry", "run"): "nohup",
    ("pipenv", "run"): "nohup",
    ("pdm", "run"): "nohup",
    ("hatch", "run"): "nohup",
    ("rye", "run"): "nohup",
    ("pixi", "run"): "nohup",
    ("bundle", "exec"): "nohup",
    ("opam", "exec"): "nohup",
}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*+=")
_QUERIES = frozenset({"-v", "-V"})


def _base(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def without_wrappers(words: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the words of the program finally run. `command -v x` runs nothing and is unchanged."""
    for _ in range(8):
        if not words:
            return words
        name, taken = _base(words[0]), 1
        paired = _PAIRED.get((name, words[1])) if len(words) > 1 else None
        if paired is not None:
            name, taken = paired, 2
        wrapper = _WRAPPERS.get(name)
        if wrapper is None or (name == "command" and len(words) > 1 and words[1] in _QUERIES):
            return words
        rest = _after_options(words[taken:], *wrapper)
        if not rest:
            return words
        words = rest
    return words


def _after_options(words: tuple[str, ...], valued: frozenset[str], before: int) -> tuple[str, ...]:
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if word in valued:
            at += 2
        elif word.startswith("-") or _ASSIGNMENT.match(word):
            at += 1
        elif before:
            before -= 1
            at += 1
        else:
            break
    return words[at:]


class HandedOn(NamedTuple):
    """Commands passed on to other programs."""

    scripts: tuple[str, ...] = ()
    """Shell texts."""
    commands: tuple[tuple[str, ...], ...] = ()
    """Word lists."""


def handed_on(words: tuple[str, ...], stdin: str | None) -> HandedOn:
    """Returns the scripts and commands that `words` pass to a shell or `find`; `stdin` is their here-document."""
    words = without_wrappers(words)
    if not words:
        return HandedOn()
    name = _base(words[0])
    if name in _SHELLS:
        script = _script(words)
        if script is None and stdin is not None and all(word.startswith("-") for word in words[1:]):
            script = stdin
        return HandedOn(() if script is None else (script,))
    if name == "eval":
        return HandedOn((" ".join(words[1:]),))
    if name in ("su", "runuser", "script") and "-c" in words[:-1]:
        return HandedOn((words[words.index("-c") + 1],))
    return HandedOn(commands=tuple(_executed_by_find(words))) if name == "find" else HandedOn()


def _script(words: tuple[str, ...]) -> str | None:
    """Returns the text after `-c` among a shell's words."""
    at = 1
    while at < len(words) and words[at].startswith(("-", "+")):
        option = words[at]
        if not option.startswith("--") and "c" in option[1:]:
            return next((each for each in words[at + 1 :] if not each.startswith("-")), None)
        at += 2 if not option.startswith("--") and option.endswith(("o", "O")) else 1
    return None


def _executed_by_find(words: tuple[str, ...]) -> list[tuple[str, ...]]:
    found, at = [], 0
    while at < len(words):
        if words[at] in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((n for n in range(at + 1, len(words)) if words[n] in (";", "+")), len(words))
            if end > at + 1:
                found.append(words[at + 1 : end])
            at = end
        at += 1
    return found
