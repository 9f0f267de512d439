from __future__ import annotations

import asyncio
import io
import sys

import pytest

from assay.cli.live import Display, build_confirmation
from assay.rollout.limits.contract_guards import Question


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nobody_is_asked_where_there_is_no_terminal() -> None:
    assert build_confirmation(Display()) is None


@pytest.mark.parametrize(("typed", "allowed"), [("y\n", True), ("YES\n", True), ("\n", False), ("", False)])
def test_only_a_yes_allows_and_hostile_text_is_shown_escaped(
    typed: str, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    monkeypatch.setattr(sys, "stderr", shown)

    async def answered() -> bool:
        ask = build_confirmation(Display())
        assert ask is not None
        return await ask(Question("t", "shell", "rm \x1b[2J", "no-removal", "it removes"))

    assert asyncio.run(answered()) == allowed
    assert "\x1b" not in shown.getvalue()
    assert "no-removal" in shown.getvalue()
