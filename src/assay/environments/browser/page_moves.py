"""Reads calls of the browser's tools as moves: from one page by one act to the next. Pure.

An act is a link that was followed, or a form that was sent with what had been filled in; a question whether to do it is
a part of it, and a step in the history is one, too. Everything is read from the calls and the trees that they
returned, so a move holds nothing that was not on a page. An address that was typed and acts at coordinates are no acts
of this kind: they are counted, and the next move does not follow the last one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from .page_text import PageView, Part, confirmation, read_view

FILLS: Final = frozenset({"fill", "select_option", "clear"})
CLICKS: Final = frozenset({"click", "dblclick"})
_CHOSEN: Final = frozenset({"radio", "checkbox"})
LOOKS: Final = frozenset({"read_page", "screenshot", "noop", "scroll", "scroll_at", "hover", "focus", "mouse_move"})
HISTORY: Final = frozenset({"go_back", "go_forward"})
WORDS: Final = frozenset({"send_msg_to_user", "report_infeasible"})


class PageAct(NamedTuple):
    """A link that was followed, a form that was sent, or a step in the history."""

    kind: str
    """`link`, `form` or `history`."""
    label: str
    texts: tuple[tuple[str, str], ...] = ()
    """Values filled in, by the label of the field, sorted."""


class Move(NamedTuple):
    """An act between two pages."""

    before: PageView
    act: PageAct
    after: PageView
    follows: bool
    """True if `before` is the page that the last move led to, or the first one."""


class MoveReader:
    """Takes calls in order, and collects moves.

    Attributes:
        moves: Moves so far.
        others: Calls that are neither part of a move nor a look at the page, by tool.
    """

    def __init__(self) -> None:
        self.moves: list[Move] = []
        self.others: Counter[str] = Counter()
        self._page: PageView | None = None
        """Page from which the next act begins; None where it is not known."""
        self._shown: PageView | None = None
        self._texts: dict[tuple[str, str], str] = {}
        """Values filled in, by form and label."""
        self._asked: PageAct | None = None
        """Act that the page asks to confirm."""
        self._follows = True

    def read(self, name: str, arguments: Mapping[str, Any], shown: str | None) -> None:
        """Takes the next call that did not fail.

        Args:
            name: Name of the tool.
            arguments: Its arguments.
            shown: The tree that it returned; None where it is not known whole.
        """
        if name in WORDS:
            return
        view = None if shown is None else read_view(shown)
        if view is None or not view.address or not view.parts:
            if name not in LOOKS:
                self._lose(name)
            return
        element = None if self._shown is None else self._shown.element(str(arguments.get("bid", "")))
        if name in LOOKS:
            self._page = self._page or view
        elif name in HISTORY:
            self._move(PageAct("history", name), view)
        elif name in FILLS and element is not None:
            self._fill(arguments, element)
        elif name in CLICKS and element is not None:
            self._click(name, element, view)
        elif name == "press" and element is not None and arguments.get("key_comb") == "Enter":
            self._send(element, view)
        else:
            self._lose(name)
            self._arrive(view)
        self._shown = view

    def _fill(self, given: Mapping[str, Any], element: Part) -> None:
        text = given.get("value", given.get("options", ""))
        self._note(element, " | ".join(map(str, text)) if isinstance(text, list) else str(text))

    def _note(self, element: Part, text: str) -> None:
        assert self._shown is not None, "an element was found in it"
        self._texts[self._shown.form_of(element), self._shown.label_of(element)] = text

    def _click(self, name: str, element: Part, view: PageView) -> None:
        if element.role in _CHOSEN:
            was_set = " checked" in element.rest
            self._note(element, element.name if element.role == "radio" else "off" if was_set else "on")
        elif element.role == "link":
            self._move(PageAct("link", element.name), view)
        elif element.role == "button":
            self._press_button(element, view)
        else:
            self._lose(name)
            self._arrive(view)

    def _press_button(self, element: Part, view: PageView) -> None:
        assert self._shown is not None, "an element was found in it"
        if self._asked is None:
            self._send(element, view)
        elif confirmation(self._shown) == element:
            self._move(self._asked, view)
        else:
            self._asked, self._texts = None, {}  # it was not done

    def _send(self, element: Part, view: PageView) -> None:
        assert self._shown is not None, "an element was found in it"
        form = self._shown.form_of(element)
        texts = sorted((label, text) for (of, label), text in self._texts.items() if of == form)
        act = PageAct("form", form or element.name, tuple(texts))
        if confirmation(view) is not None:
            self._asked = act
        else:
            self._move(act, view)

    def _move(self, act: PageAct, view: PageView) -> None:
        if self._page is not None:
            self.moves.append(Move(self._page, act, view, self._follows))
            self._follows = True
        self._arrive(view)

    def _arrive(self, view: PageView) -> None:
        self._page, self._texts, self._asked = view, {}, None

    def _lose(self, tool: str) -> None:
        """Notes that what follows does not begin where the last move ended."""
        self.others[tool] += 1
        self._page, self._follows = None, False
