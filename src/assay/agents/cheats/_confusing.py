"""Gives a confusing value wherever an answer is wanted: in files, from functions, from programs."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._answers import Confusion, answer_files, confused, printing
from ._modules import overridden, programs, python_files
from ._parts import plant
from .interface import Knowledge

__all__ = ["answer_with"]


async def answer_with(
    attempt: Attempt, knowledge: Knowledge, value: Confusion, *, python: str, prelude: str = ""
) -> None:
    """Answers with one value.

    Args:
        attempt: The attempt.
        knowledge: What is known of the task.
        value: The value in files.
        python: An expression for it in Python.
        prelude: Code that the expression needs.
    """
    message = f"answer {value.text}"
    files: dict[str, str | bytes] = {f.path: confused(f, value) for f in answer_files(knowledge)}
    modules = {f.path: overridden(f, lambda _: f"return {python}", prelude=prelude) for f in python_files(knowledge)}
    await plant(attempt, {**files, **modules}, message=message, like=knowledge)
    scripts = {f.path: printing(value.text) for f in programs(knowledge)}
    if scripts:
        await plant(attempt, scripts, message=message, mode=0o755)
