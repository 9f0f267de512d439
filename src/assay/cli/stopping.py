"""What ending hopeless attempts came to, in a sentence."""

from __future__ import annotations

from pathlib import Path

__all__ = ["stopping_of"]


def stopping_of(store: Path, run: str) -> str | None:
    """The sentence; None where no attempt of the run could be ended so."""
    from assay.rollout.limits.early_stop import stop_report
    from assay.store import RunStore

    with RunStore.open(store, run) as opened:
        config = opened.manifest().get("config")
        if not isinstance(config, dict) or config.get("early_stop") is None:
            return None
        report = stop_report(opened.trajectory(row.chain) for row in opened.attempts() if row.final)
    told = f"{report.stopped} of {report.watched} watched attempts were ended as hopeless"
    if report.false_stop_rate is None:
        return f"{told}; no control tells how often that was wrong"
    low, high = report.interval
    return (
        f"{told}; of {report.controls} that ran on as controls {report.controls_passed} passed: false stops "
        f"{report.false_stop_rate:.1%} (95% {low:.1%} to {high:.1%})"
    )
