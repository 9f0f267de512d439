"""Ends a living attempt that is taken as hopeless. The rules, and what they come to, are in `early_stop`."""

from __future__ import annotations

from assay.errors import LimitReached
from assay.rollout.limits.early_stop import HOPELESS, StopRule, Watch
from assay.rollout.recording.recorder import Recorder

__all__ = ["Stopper"]


class Stopper:
    """Watches one try; notes once that it is hopeless, and ends it where it is no control."""

    def __init__(self, rule: StopRule, recorder: Recorder) -> None:
        self.watch = Watch(rule)
        self._rule = rule
        self._recorder = recorder
        self._noted = False

    def check(self) -> None:
        """Called before each turn. Raises `LimitReached`, again for whoever goes on all the same."""
        why = self.watch.hopeless()
        if why is None:
            return
        if not self._noted:
            self._noted = True
            self._recorder.note(HOPELESS, {**why._asdict(), "control": self._rule.control})
        if not self._rule.control:
            raise LimitReached(HOPELESS, why.used, why.allowed)
