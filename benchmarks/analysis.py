"""What is done with stored and imported runs: importing `.eval`, asking a sealed store, signals, graphs.

    python -m benchmarks.analysis [--quick] [--part NAME ...] [--peer-python inspect=PATH]

Each part is a module `benchmarks/_analysis_*.py` that also runs alone and says more there. The numbers of a part are
taken one after the other, on one core but where a store's engine takes more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks._analysis_graphs import MOST_S as GRAPHS_MOST_S
from benchmarks._analysis_graphs import measure_graphs
from benchmarks._analysis_import import MEGABYTES, measure_import
from benchmarks._analysis_signals import MOST_S as SIGNALS_MOST_S
from benchmarks._analysis_signals import measure_signals
from benchmarks._analysis_store import PROMISES, measure_store
from benchmarks._report import Report, Target, options

__all__ = ["COLUMNS", "PARTS", "Found", "main"]

COLUMNS = ("part", "what", "measured", "unit")
IMPORT_LOG = "many samples"
SHARE = "times Inspect's own loader"


class Asked(NamedTuple):
    """How a part is to be measured."""

    quick: bool
    peer: str | None
    """The Python that has Inspect."""


class Found(NamedTuple):
    """What a part found."""

    rows: list[dict[str, Any]]
    targets: list[Target]
    not_measured: dict[str, str]


def _row(part: str, what: str, measured: object, unit: str) -> dict[str, Any]:
    return {"part": part, "what": what, "measured": measured, "unit": unit}


def importing(asked: Asked) -> Found:
    """MB/s and peak memory for `.eval`, beside Inspect's own loader."""
    found = measure_import(2 if asked.quick else MEGABYTES, asked.peer)
    rows = []
    for one in found["rows"]:
        what = f"{one['reader']}: {one['log']}, {one['samples']} samples"
        rows.append(_row("import", what, one["mb_per_cpu_s"], "MB a CPU second"))
        rows.append(_row("import", what, one["peak_mib"], "MiB at the peak"))
    shares = {key: _share(found["rows"], key) for key in ("cpu_s", "peak_mib")}
    targets = [
        Target("CPU to import an .eval of many samples", SHARE, 1.0, shares["cpu_s"]),
        Target("peak memory to import an .eval of many samples", SHARE, 1.0, shares["peak_mib"]),
    ]
    return Found(rows, targets, found["not_measured"])


def _share(rows: Sequence[dict[str, Any]], key: str) -> float | None:
    """Ours over the best of Inspect's readers, on the log of many samples; None where Inspect was not measured."""
    some = [row for row in rows if row["log"].startswith(IMPORT_LOG)]
    ours = [row[key] for row in some if row["reader"] == "Assay"]
    theirs = [row[key] for row in some if row["reader"] != "Assay"]
    return float(ours[0] / min(theirs)) if ours and theirs else None


def storing(asked: Asked) -> Found:
    """Questions to a sealed run of 100,000 trajectories, and bytes a step beside other formats."""
    found = measure_store(0.001 if asked.quick else 1.0)
    about = f"{found['attempts']:,} trajectories of 20 steps"
    rows = [_row("store", f"{what}: {about}", cost["ms"], "ms, median") for what, cost in found["read"].items()]
    rows += [_row("store", what, size, "bytes a step") for what, size in found["bytes a step"].items()]
    rows.append(_row("store", f"asking: {about}", found["read peak MiB"], "MiB at the peak"))
    read = found["read"]
    targets = [
        Target(
            f"{name}: 100,000 trajectories",
            "ms",
            most,
            None if asked.quick else read[name]["ms"],
        )
        for name, most in PROMISES.items()
    ]
    return Found(rows, targets, {})


def signalling(asked: Asked) -> Found:
    """All triage signals over columns of steps."""
    found = measure_signals(5_000 if asked.quick else 2_000_000)
    what = f"all signals, {found['steps']:,} steps, {found['text_mb']:.0f} MB of text"
    measured = None if asked.quick else found["cpu_s"]
    target = Target("all signals over 2 million steps", "CPU s", SIGNALS_MOST_S, measured)
    return Found([_row("signals", what, found["cpu_s"], "CPU s")], [target], {})


def graphing(asked: Asked) -> Found:
    """Prefix trees and quotient graphs of many attempts at one task."""
    found = measure_graphs(*((50, 20) if asked.quick else ()))
    about = f"{found['attempts']:,} attempts, {found['acts']:,} acts"
    rows = [_row("graphs", f"{stage}: {about}", cost, "CPU s") for stage, cost in found["cpu_s"].items()]
    measured = None if asked.quick else found["tree_from_records_cpu_s"]
    return Found(rows, [Target("prefix tree of 1,000 attempts, from records", "CPU s", GRAPHS_MOST_S, measured)], {})


PARTS: dict[str, Callable[[Asked], Found]] = {
    "import": importing,
    "store": storing,
    "signals": signalling,
    "graphs": graphing,
}


def _peer_of(given: Sequence[str]) -> str | None:
    """The Python that has Inspect: named so, or not named."""
    named = [value.rpartition("=") for value in given]
    return next((path for name, _, path in reversed(named) if name in ("", "inspect")), None)


def main(argv: Sequence[str] | None = None) -> None:
    parser = options("analysis", "importing, asking a sealed store, signals, graphs")
    parser.add_argument("--part", action="append", choices=list(PARTS), help="only this part; may be given again")
    given = parser.parse_args(argv)
    names = given.part or list(PARTS)
    asked = Asked(given.quick, _peer_of(given.peer_python))
    parts = [PARTS[name](asked) for name in names]
    report = Report(
        name="analysis",
        how="Generated logs, runs and attempts; each part in a process of its own where memory is measured.",
        rows=[row for part in parts for row in part.rows],
        targets=[target for part in parts for target in part.targets],
        not_measured={what: why for part in parts for what, why in part.not_measured.items()},
    )
    report.finish(COLUMNS, given.into)


if __name__ == "__main__":
    main()
