"""Importing `.eval` archives: ours against Inspect's own loader, in megabytes of JSON a second and peak memory.

    python -m benchmarks._analysis_import [--peer-python inspect=PATH] [--megabytes N]

Two logs are made as Inspect writes them today (messages in pools, long texts as attachments): one of many samples, and
one whose only sample is that large. Ours reads every sample into the records that a store takes; Inspect reads the
whole (`read_eval_log`), or one sample after the other (`read_eval_log_samples`). Each has a process of its own.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from assay.formats.inspect.format import InspectFormat
from assay.formats.interface import ImportContext
from assay.records import digest_bytes
from benchmarks._measure import cost_of, own_process

__all__ = ["MEGABYTES", "measure_import", "rows"]

MEGABYTES = 300
_TURNS, _OUTPUT, _LONG_OUTPUT = 60, 2_000, 30_000
"""Turns of one of many samples, and characters that a tool brings back; of the one large sample they are long."""
_WORDS = ["".join(random.Random(n).choices("etaoinshrdlucm_/.", k=2 + n % 8)) for n in range(3_000)]
_EVAL = {
    "run_id": "r", "created": "2026-01-01T00:00:00+00:00", "task": "t", "task_id": "t", "dataset": {}, "model": "m/m",
    "config": {},
}  # fmt: skip
_HEADER = {"version": 2, "status": "success", "eval": _EVAL, "plan": {"steps": [{"solver": "react"}]}}


def measure_import(megabytes: int = MEGABYTES, peer: str | None = None) -> dict[str, Any]:
    """What each reader takes for each log, and why one was not measured."""
    found: dict[str, Any] = {"rows": [], "not_measured": {}}
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as scratch:
        for name, turns in (("many samples", _TURNS), ("one sample", None)):
            path = Path(scratch) / f"{name.replace(' ', '-')}.eval"
            size, samples = _made(path, megabytes, turns)
            about = {"log": f"{name}, {size / 1e6:.0f} MB", "samples": samples}
            seconds, peak = own_process(_ours, str(path))
            _add(found, about, "Assay", size, {"cpu_s": seconds[0], "wall_s": seconds[1], "peak_mib": peak})
            readers = ("read_eval_log", "read_eval_log_samples") if turns else ("read_eval_log_samples",)
            for reader in readers:
                result = _peer(peer, reader, path) if peer else "name its Python with --peer-python inspect=PATH"
                if isinstance(result, str):
                    found["not_measured"][f"Inspect, {reader}, {name}"] = result
                else:
                    _add(found, about, f"Inspect, {reader}", size, result)
    return found


def rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a table."""
    return list(found["rows"])


def _add(found: dict[str, Any], about: dict[str, Any], reader: str, size: int, cost: dict[str, float]) -> None:
    speed = {"mb_per_cpu_s": size / 1e6 / cost["cpu_s"], "cpu_s": cost["cpu_s"], "wall_s": cost["wall_s"]}
    found["rows"].append({**about, "reader": reader, **speed, "peak_mib": cost["peak_mib"]})


def _ours(path: str) -> tuple[float, float]:
    def read() -> None:
        count = sum(len(one.bodies) for one in InspectFormat().read(Path(path), ImportContext(digest_bytes, _refuse)))
        assert count

    cost = cost_of(read)
    return cost.cpu_s, cost.wall_s


def _refuse(what: object) -> None:
    raise AssertionError(what)


_PEER = """
import json, resource, signal, sys, time
from inspect_ai.log import read_eval_log, read_eval_log_samples
# Else Python, which names asyncio's handler of Ctrl-C when that is put back, formats the whole sample as text.
signal.signal(signal.SIGINT, signal.SIG_IGN)
reader, path = sys.argv[1:]
wall, cpu = time.perf_counter(), time.process_time()
if reader == "read_eval_log":
    count = sum(len(s.events) for s in read_eval_log(path).samples)
else:
    count = sum(len(s.events) for s in read_eval_log_samples(path))
assert count
cost = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
print(json.dumps(cost | {"peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def _peer(python: str, reader: str, path: Path) -> dict[str, float] | str:
    argv = [python, "-c", _PEER, reader, str(path)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=1800)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return f"{type(exc).__name__}: {exc}"
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _made(path: Path, megabytes: int, turns: int | None) -> tuple[int, int]:
    """Writes a log and returns how many bytes of JSON it holds in how many samples."""
    size, number, summaries = 0, 0, []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("_journal/start.json", json.dumps({k: v for k, v in _HEADER.items() if k != "status"}))
        while size < megabytes * 1_000_000 and (turns or not number):
            with archive.open(f"samples/s{number}_epoch_1.json", "w", force_zip64=True) as member:
                for piece in _sample(number, turns, megabytes * 1_000_000):
                    size += member.write(piece)
            summaries.append({"id": f"s{number}", "epoch": 1, "input": "x", "target": "y", "completed": True})
            number += 1
        archive.writestr("summaries.json", json.dumps(summaries))
        dataset = {"samples": number, "sample_ids": [one["id"] for one in summaries]}
        archive.writestr("header.json", json.dumps({**_HEADER, "eval": {**_EVAL, "dataset": dataset}}))
    return size, number


def _sample(number: int, turns: int | None, largest: int) -> Iterator[bytes]:
    """A sample of so many turns, or one of about so many bytes, in pieces."""
    draw, written, attachments = random.Random(number), 0, dict[str, str]()
    pool: list[dict[str, Any]] = [{"id": "u", "role": "user", "content": "Find out why it fails and mend it."}]
    start = {"id": f"s{number}", "epoch": 1, "input": pool[0]["content"], "target": "y", "metadata": {}, "store": {}}
    start |= {"scores": {"right": {"value": "C" if number % 3 else "I", "history": []}}, "total_time": 60.0}
    start |= {"output": {"model": "m", "choices": []}, "model_usage": {}}
    yield msgspec.json.encode(start)[:-1] + b',"events":['
    length = _LONG_OUTPUT if turns is None else _OUTPUT
    turn = 0
    while turn < turns if turns is not None else written < largest:
        events = list(_turn(draw, (turn, length), pool, attachments))
        piece = b"," * bool(turn) + b",".join(map(msgspec.json.encode, events))
        written += len(piece) + 2 * length
        turn += 1
        yield piece
    final = [_unfolded(message, attachments) for message in pool]
    yield b'],"messages":' + msgspec.json.encode(final)
    yield b',"attachments":' + msgspec.json.encode(attachments)
    yield b',"events_data":' + msgspec.json.encode({"messages": pool, "calls": []}) + b"}"


def _unfolded(message: dict[str, Any], attachments: dict[str, str]) -> dict[str, Any]:
    content = message["content"]
    return {**message, "content": attachments.get(content.removeprefix("attachment://"), content)}


def _turn(
    draw: random.Random, which: tuple[int, int], pool: list[dict[str, Any]], attachments: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """A call of the model, of a tool and of the sandbox, as Inspect writes them. `which`: number, output's length."""
    turn, length = which
    at = f"2026-01-01T{turn // 3600 % 24:02}:{turn // 60 % 60:02}:{turn % 60:02}+00:00"
    output = " ".join(draw.choices(_WORDS, k=length // 6))
    reference = f"{draw.getrandbits(128):032x}"
    attachments[reference] = output
    command = {"cmd": " ".join(draw.choices(_WORDS, k=8))}
    call = {"id": f"call{turn}", "function": "bash", "arguments": command, "type": "function"}
    said = {
        "id": f"a{turn}",
        "role": "assistant",
        "content": " ".join(draw.choices(_WORDS, k=25)),
        "tool_calls": [call],
    }
    came = {"id": f"t{turn}", "role": "tool", "tool_call_id": call["id"], "function": "bash"}
    base = {"timestamp": at, "completed": at, "working_start": float(turn), "uuid": f"e{turn}", "span_id": "agent"}
    usage = {"input_tokens": 100 * turn, "output_tokens": 60, "total_tokens": 100 * turn + 60}
    answer = {"model": "m", "choices": [{"message": said, "stop_reason": "tool_calls"}], "usage": usage}
    asked = {"input": [], "input_refs": [[0, len(pool)]], "tools": [], "tool_choice": "auto", "config": {}}
    yield {**base, "event": "model", "model": "m/m", **asked, "output": answer}
    ran = {"id": call["id"], "function": "bash", "arguments": command, "result": f"attachment://{reference}"}
    yield {**base, "event": "tool", "type": "function", **ran, "events": []}
    yield {**base, "event": "sandbox", "action": "exec", "cmd": command["cmd"], "result": 0, "output": output[:1500]}
    pool += [said, {**came, "content": f"attachment://{reference}"}]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks._analysis_import", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=MEGABYTES)
    parser.add_argument("--peer-python", default="", metavar="[inspect=]PATH")
    given = parser.parse_args()
    print(json.dumps(measure_import(given.megabytes, given.peer_python.rpartition("=")[2] or None), indent=2))


if __name__ == "__main__":
    main()
