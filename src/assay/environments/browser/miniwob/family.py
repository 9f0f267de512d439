"""The task family `miniwob`: pages of MiniWoB++, each with a seed of its own generator.

A task passes if the page's own raw reward is exactly 1. The same `n`, `seed` and options give the same tasks.
"""

from __future__ import annotations

from typing import Any

from assay.environments.browser.picture_options import FamilyPictures
from assay.environments.task_digest import digest_task
from assay.errors import UserError
from assay.records import Check, EnvironmentSpec, Task

from .solvers import SCRIPTS
from .world import list_pages

_INSTRUCTION = (
    "The browser shows a page with a small task, which stands at its top. Do it. Begin with `read_page`, which shows "
    "the page; the task is over as soon as the page has judged it."
)
SCRIPTED = "scripted"


class MiniWobTasks:
    """Tasks on pages of MiniWoB++.

    Args:
        page: Names of pages, joined by `+`, or `scripted` for those that the oracle can do; default: all, in turn.
        reuse_page: True to begin in the page of an earlier attempt, emptied and loaded anew.
        marks: True for pictures in which elements are marked with their numbers.
        picture_type: Form of pictures: `webp` or `png`.
        computer: True to offer the tool `computer` of computer-use models, too.
    """

    def __init__(
        self,
        *,
        page: str = "",
        reuse_page: bool = False,
        marks: bool = False,
        picture_type: str = "webp",
        computer: bool = False,
    ) -> None:
        if not isinstance(reuse_page, bool):
            raise UserError("reuse_page of the family 'miniwob': expected true or false")
        self._options = {"reuse_page": True} if reuse_page else {}
        self._pictures = FamilyPictures("miniwob", marks, picture_type, computer)
        self._names = tuple(name for name in str(page).split("+") if name)

    def tasks(self, n: int, seed: int) -> tuple[Task, ...]:
        """Raises `UserError` for an unknown page, and without the package."""
        known = list_pages()
        names = tuple(SCRIPTS) if self._names == (SCRIPTED,) else self._names or known
        if unknown := [name for name in names if name not in known]:
            raise UserError(f"page={unknown[0]} of the family 'miniwob': expected pages of it: {', '.join(known)}")
        return self._pictures.apply(
            (_task({"page": names[at % len(names)], **self._options}, seed + at // len(names)) for at in range(n)),
            table="",
        )


def _task(parameters: dict[str, Any], seed: int) -> Task:
    page = parameters["page"]
    environment = EnvironmentSpec("miniwob", parameters, seed)
    checks = (Check("reward", "facts", {"expected": {"success": True}}),)
    return Task(
        id=f"miniwob-{page}-{seed}",
        instruction=_INSTRUCTION,
        environment=environment,
        checks=checks,
        digest=digest_task(_INSTRUCTION, environment, checks),
        tags=("miniwob", page),
        source=f"MiniWoB++, {page}",
    )
