"""Options of pictures that every world in a browser has, and as options of task families.

Servers of models differ in what they read: those of OpenAI, Anthropic and Google take WebP, some local ones (llama.cpp)
take PNG alone, so `picture_type` chooses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import asdict, replace

from assay.environments.task_digest import digest_task
from assay.errors import UserError
from assay.records import Check, Task

SITE: Final = "site"
"""Parameter of a site's environment that holds the options of the site and the browser; all others are those of the
services."""
PictureType = Literal["webp", "png"]


class PictureOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of every world in a browser: what is taken after an act, and how a model that sees it may act."""

    pictures: bool = True
    """True to store a picture of the page after each act."""
    marks: bool = False
    """True to mark in pictures the elements that are seen and can be acted on, with their numbers."""
    picture_type: PictureType = "webp"
    """Form of pictures: `webp`, or `png` (without loss, about twice as large) for models that read no WebP."""
    computer: bool = False
    """True to offer the tool `computer` of computer-use models, too."""


DEFAULT_PICTURES: Final = PictureOptions()


_POINTING: Final = Check("pointing", "pointing", {})


class FamilyPictures:
    """The options `marks`, `picture_type`, `computer`, `aims` and `theme` of a family whose tasks are in a browser.

    Args:
        family: Name of the family, for errors.
        marks: As in `PictureOptions`.
        picture_type: As in `PictureOptions`.
        computer: As in `PictureOptions`.
        aims: True to give tasks with a plan the check `pointing`, and to note what it judges.
        theme: Seed of the looks of its sites; None for that of the world.
        has_pages: False for tasks without a browser, which take none of them.

    Raises:
        UserError: A value is invalid.
    """

    def __init__(
        self,
        family: str,
        marks: object,
        picture_type: object,
        computer: object,
        aims: object = False,
        theme: object = None,
        *,
        has_pages: bool = True,
    ) -> None:
        given = {"marks": marks, "picture_type": picture_type, "computer": computer}
        try:
            options = msgspec.convert(given, PictureOptions)
        except msgspec.ValidationError as exc:
            raise UserError(
                f"The family {family!r}: {exc}; marks and computer are true or false, picture_type is webp or png"
            ) from exc
        fields = asdict(options)
        default = asdict(DEFAULT_PICTURES)
        self._changed = {name: value for name, value in fields.items() if value != default[name]}
        if not isinstance(aims, bool):
            raise UserError(f"aims={aims} of the family {family!r}: expected true or false")
        if theme is not None and (type(theme) is not int or theme < 0):
            raise UserError(f"theme={theme} of the family {family!r}: expected a number, 0 or more")
        self._changed |= {**({"aims": True} if aims else {}), **({} if theme is None else {"theme": theme})}
        if self._changed and not has_pages:
            raise UserError(f"{' and '.join(self._changed)} of the family {family!r} need interface=pages")

    def apply(self, tasks: Iterable[Task], table: str = SITE) -> tuple[Task, ...]:
        """Returns the tasks with these options in a table of their environments' parameters, or beside the others
        (`table` empty). With the defaults the tasks stay as they are."""
        return tuple(self._apply(task, table) for task in tasks) if self._changed else tuple(tasks)

    def _apply(self, task: Task, table: str) -> Task:
        known: dict[str, Any] = task.environment.parameters
        options = {name: value for name, value in self._changed.items() if name != "aims" or known.get("plan")}
        changed = {table: {**known.get(table, {}), **options}} if table else options
        environment = replace(task.environment, parameters={**known, **changed})
        checks = (*task.checks, _POINTING) if "aims" in options else task.checks
        digest = digest_task(task.instruction, environment, checks)
        return replace(task, environment=environment, checks=checks, digest=digest)
