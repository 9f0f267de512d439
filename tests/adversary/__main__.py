"""`python -m tests.adversary --seed N --count K --out JSON`: runs a campaign and prints its table.

With `--honest` it makes honest attempts instead, with `--right TASK ...` it tries other right solutions.

Exit code 0 where the bar is met, 1 where it is not, 130 after Ctrl-C; the same command then goes on.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from assay.settings import Settings

from .bar import summarize_honest
from .base_tasks import write_base_tasks
from .campaign import Campaign, assign, composed, run_campaign
from .honest import honest_assignments
from .library import PUBLISHED, read_published, read_scripts
from .partial import partial_repairs
from .right_campaign import RightCampaign, run_right_campaign
from .workers import frame_scripts, lie_scripts, lying_edits, right_answer_by_hand


def main(argv: list[str] | None = None) -> int:
    """Reads the command line, runs the campaign, prints the summary; returns the exit code."""
    options = _parse(argv)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="assay-adversary-tasks-") as folder:
        try:
            result = _run(options, Path(folder))
        except KeyboardInterrupt:
            _say("interrupted; the same command goes on from here")
            return 130
    _show(result)
    return 1 if result["breaches"] or result["honest_breaches"] else 0


def _run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Runs the campaign that was asked for: right solutions, honest attempts, or attacks."""
    if options.right:
        cache = Settings.from_environment().cache / "releases"
        given = RightCampaign(options.seed, tuple(options.right), options.each, options.out, cache, options.only or "")
        return run_right_campaign(given, _say)
    folders = write_base_tasks(folder)
    if options.honest:
        assignments = honest_assignments(folders, options.demo, options.repetitions, _say)
        return run_campaign(Campaign(options.seed, assignments, options.out), _say, summarize_honest)
    scripts = [script for script in _scripts(options) if options.only is None or options.only in script.name]
    assignments = assign(scripts, folders, options.demo)
    if options.layers:
        partial = partial_repairs(options.demo, options.seed)
        assignments += tuple(one for one in partial if options.only is None or options.only in one.script.name)
    return run_campaign(Campaign(options.seed, assignments, options.out), _say)


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.adversary", description="Attacks verifiers by campaign.")
    parser.add_argument("--seed", type=int, default=0, help="seed of composed scripts and of drawn rewrites")
    parser.add_argument("--count", type=int, default=0, help="how many composed scripts")
    parser.add_argument("--scripts", action="store_true", help="all written and published scripts, and honest ones")
    parser.add_argument(
        "--layers",
        action="store_true",
        help="all lying workers, hostile frames, lying edits, and partial repairs with lies",
    )
    parser.add_argument("--only", help="only scripts or solutions whose name holds this text")
    parser.add_argument("--demo", type=Path, nargs="*", default=[], help="folders of synthesised tasks")
    parser.add_argument("--honest", action="store_true", help="honest attempts of every kind, and nothing else")
    parser.add_argument("--repetitions", type=int, default=20, help="how many honest attempts of each kind")
    parser.add_argument("--right", type=Path, nargs="+", help="other right solutions of these tasks, and nothing else")
    parser.add_argument("--each", type=int, default=8, help="how many rewrites of each task, at most")
    parser.add_argument("--out", type=Path, required=True, help="the result, a JSON file")
    return parser.parse_args(argv)


def _scripts(options: argparse.Namespace) -> list[Any]:
    found = list(composed(options.seed, options.count))
    if options.layers:
        found += [right_answer_by_hand(), *lie_scripts(), *frame_scripts(), *lying_edits()]
    if options.scripts:
        published = read_published()
        if not published:
            _say(f"no published scripts: {PUBLISHED} is absent")
        found += [*read_scripts(), *published]
    return found


def _say(text: str) -> None:
    """Shows progress, apart from the result."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _show(result: dict[str, Any]) -> None:
    for line in result.get("table", ()):
        _write("  ".join(f"{value!s:10}" for value in line.values()))
    for name in ("attempts", "undeserved", "kinds", "tried", "right", "tasks", "by_source", "refused", "refused_share"):
        if name in result:
            _write(f"{name}: {result[name] or 'none'}")
    if "undeserved_with_integrity_pass" in result:
        _write(f"undeserved passes with integrity pass: {len(result['undeserved_with_integrity_pass'])}")
    for name in ("refusals", "breaches", "honest_breaches"):
        if name in result:
            _write(f"{name}: {len(result[name])}")
            for sentence in result[name][:20]:
                _write(f"  {sentence}")


if __name__ == "__main__":
    sys.exit(main())
