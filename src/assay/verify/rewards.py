"""Reads a test script's files in `/logs/verifier`, after all processes have ended.

Harbor's rule: `reward.json`, a flat object of finite numbers, goes before `reward.txt`, one finite number. Beyond
this rule: only regular files are read, bounded, never through a link; two contradicting files are reported; a reward
that its owner may not write is not the script's last one.
"""

from __future__ import annotations

import json
import math
import re
from typing import NamedTuple

import msgspec

from assay.code.ctrf import read_ctrf
from assay.code.results import TestReport
from assay.environments.interface import Workspace
from assay.verify.sanitise import RECORDS, REWARDS

MOST_REWARD, MOST_KEYS, MOST_RECORDS = 64 * 1024, 100, 50
MOST_RECORD = 32 * 1024 * 1024
_LIST = f"""
for path in {REWARDS}/* {RECORDS}/*; do
    if [ -h "$path" ]; then kind=link; elif [ -f "$path" ]; then kind=file; else kind=other; fi
    case $path in */reward.*) case $(LC_ALL=C ls -ldn "$path") in -?-*) kind=other ;; esac ;; esac
    printf '%s %s\\n' $kind "$path"
done
"""
_LISTED = re.compile(r"(link|file|other) (/logs/(?:verifier|recorder)/[A-Za-z0-9_.-]{1,200})")


class Rewards(NamedTuple):
    """Content of the reward files. `problem` is the reason why they are unusable, or their contradiction."""

    values: dict[str, float]
    problem: str | None = None
    source: str | None = None
    unusable: bool = False
    """One of two files is unusable, so it is unknown which of them the script wrote last."""


class ScriptOutputs(NamedTuple):
    """Files that a script left for the verifier."""

    rewards: Rewards
    reports: tuple[TestReport, ...]
    records: tuple[dict[str, object], ...]
    """Records of the test runner, one object per run."""
    marks: tuple[str, ...]
    names: tuple[str, ...]


def parse_rewards(as_json: bytes | None, as_text: bytes | None) -> Rewards:
    """Returns the rewards in the two files; None for a missing file."""
    try:
        text = None if as_text is None else {"reward": _number(_ascii(as_text).strip(), "reward.txt")}
    except ValueError as exc:
        if as_json is None:
            return Rewards({}, str(exc), "reward.txt")
        return _beside(str(exc), "reward.json", as_json)
    if as_json is None:
        return Rewards({}, "no reward was written") if text is None else Rewards(text, None, "reward.txt")
    try:
        values = _object(as_json)
    except ValueError as exc:
        return Rewards({}, str(exc), "reward.json", unusable=text is not None)
    if text is not None and headline(values) != headline(text):
        told = f"reward.json says {headline(values):g} and reward.txt says {headline(text):g}"
        return Rewards(values, told, "reward.json")
    return Rewards(values, None, "reward.json")


def _beside(problem: str, source: str, as_json: bytes) -> Rewards:
    """Returns the rewards if reward.txt is unusable."""
    try:
        return Rewards(_object(as_json), problem, source, unusable=True)
    except ValueError as exc:
        return Rewards({}, f"{problem}; {exc}", source)


def headline(values: dict[str, float]) -> float:
    """Returns the number `reward` if there is one, else the lowest number."""
    return values["reward"] if "reward" in values else min(values.values())


def _ascii(data: bytes) -> str:
    if not data.isascii():
        raise ValueError("reward.txt has bytes that are not ASCII text")
    return data.decode("ascii")


def _number(value: object, where: str) -> float:
    """Returns a finite number, from a number or its text."""
    text = value if isinstance(value, str) else repr(value) if type(value) in (int, float) else "?"
    try:
        number = float(text)
    except (ValueError, OverflowError) as exc:
        raise ValueError(f"{where} is {str(value)[:80]!r}, not a number") from exc
    if not math.isfinite(number):
        raise ValueError(f"{where} is {number}: only finite numbers are rewards")
    return number


def _object(data: bytes) -> dict[str, float]:
    try:
        found = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"reward.json is not JSON: {str(exc)[:200]}") from exc
    if not isinstance(found, dict) or not found or len(found) > MOST_KEYS:
        raise ValueError(f"reward.json must be an object of 1 to {MOST_KEYS} numbers")
    text = next((key for key, value in found.items() if isinstance(value, str)), None)
    if text is not None:
        raise ValueError(f"reward.json: {text[:80]!r} is text, not a number")
    return {str(key)[:200]: _number(value, f"reward.json: {str(key)[:80]!r}") for key, value in found.items()}


async def collect(workspace: Workspace) -> ScriptOutputs:
    """Reads all files; call it after `kill_all`."""
    from assay.code.junit import read_junit  # late: an XML parser, which in-process worlds do not need

    files, marks = await _listing(workspace)
    rewards = parse_rewards(
        await _bounded(workspace, f"{REWARDS}/reward.json", files, MOST_REWARD),
        await _bounded(workspace, f"{REWARDS}/reward.txt", files, MOST_REWARD),
    )
    reports: list[TestReport] = []
    for name, reader in (("ctrf.json", read_ctrf), ("junit.xml", read_junit)):
        data = await _bounded(workspace, f"{REWARDS}/{name}", files, MOST_RECORD)
        if data is not None:
            try:
                reports.append(reader(data))
            except ValueError:
                marks.append(f"malformed_{name.partition('.')[0]}")
    records = []
    for path in [p for p in sorted(files) if p.startswith(RECORDS + "/")][:MOST_RECORDS]:
        data = await _bounded(workspace, path, files, MOST_RECORD)
        records.append(_record(data))
    return ScriptOutputs(rewards, tuple(reports), tuple(records), tuple(dict.fromkeys(marks)), tuple(sorted(files)))


def _record(data: bytes | None) -> dict[str, object]:
    """Returns a run's record; an unreadable one counts as a failed run."""
    try:
        found = msgspec.json.decode(data or b"")
    except (msgspec.MsgspecError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("tests"), list):
        return {"tests": [], "problems": ["a record of a test run cannot be read"]}
    return found


async def _listing(workspace: Workspace) -> tuple[set[str], list[str]]:
    """Returns regular files by path, and marks. Names of other kinds, or malformed ones, are not read."""
    result = await workspace.exec(["/bin/sh", "-c", _LIST], cwd="/", timeout_s=30, show_bytes=1 << 20)
    files: set[str] = set()
    others: dict[str, str] = {}
    for line in result.stdout.splitlines():
        found = _LISTED.fullmatch(line)
        if found is None:
            others.setdefault("", "" if line.endswith("/*") else "odd_names_in_rewards")
        elif found[1] == "file":
            files.add(found[2])
        else:
            others[found[2]] = "link_in_rewards" if found[1] == "link" else ""
    return files - set(others), [mark for mark in others.values() if mark]


async def _bounded(workspace: Workspace, path: str, files: set[str], limit: int) -> bytes | None:
    if path not in files:
        return None
    try:
        return await workspace.read(path, limit=limit)
    except FileNotFoundError:
        return None
    except (ValueError, OSError):
        return b""
