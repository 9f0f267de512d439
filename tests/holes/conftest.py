"""The tasks here are data: what their folders hold is run in sandboxes, never by this suite's own pytest."""

from __future__ import annotations

collect_ignore = ["fresh", "holed", "sound", "missed"]
