"""Tools of a browser for agents, in BrowserGym's vocabulary: names and arguments are those of its actions.

An act returns the page as it is when it has come to rest. Elements are named by their number in the last tree (`bid`),
or by coordinates of the viewport.

Invariant: an invalid act returns an observation with `error` that says what to do; only a broken browser raises. An
address that is not the site's own is refused before the browser sees it, so no address brings in a script.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from assay.environments.interface import ToolSpec
from assay.environments.schemas import flat_schema
from assay.environments.services.arguments import readable_arguments
from assay.records import Observation

from . import acts, computer
from .context import BLANK, BrowserContext
from .keys import MODIFIERS, modifier_event
from .page_observer import ActTarget, Observe, PageObserver
from .page_snapshot import capture
from .picture_options import DEFAULT_PICTURES, PictureOptions
from .pool import browser_pool
from .screen import Point, PointedElement
from .tab import ActProblem, Serve
from .uploads import upload
from .vocabulary import (
    Clear,
    Click,
    DblClick,
    DragAndDrop,
    Fill,
    Focus,
    GoBack,
    GoForward,
    Goto,
    Hover,
    KeyboardDown,
    KeyboardInsertText,
    KeyboardPress,
    KeyboardType,
    KeyboardUp,
    MouseClick,
    MouseDblClick,
    MouseDown,
    MouseDragAndDrop,
    MouseMove,
    MouseUp,
    NewTab,
    Noop,
    Press,
    ReadPage,
    ReportInfeasible,
    Screenshot,
    Scroll,
    ScrollAt,
    SelectOption,
    SendMsgToUser,
    TabClose,
    TabFocus,
    UploadFile,
)


class BrowserTools:
    """Tools of one attempt.

    Args:
        context: Its part of the browser.
        home: Address of the start page; only addresses of its origin can be loaded.
        observe: Form of what an act returns: the whole tree, or what changed since the last one.
        pictures: What is taken after each act.
    """

    def __init__(
        self,
        context: BrowserContext,
        home: str,
        observe: Observe = "tree",
        *,
        pictures: PictureOptions = DEFAULT_PICTURES,
    ) -> None:
        self.context = context
        self.home = home
        self.messages: list[tuple[str, str]] = []
        """Messages of the agent: kind and text."""
        self.observer = PageObserver(context, observe, pictures)
        self.before_act: Callable[[msgspec.Struct | None], Awaitable[None]] | None = None
        """Awaited with the arguments of each call before it is done; None for a call that is not well formed."""
        self._pictures = pictures
        self._point: Point | None = None
        self._hit: PointedElement | None = None
        self._held = 0

    @classmethod
    async def open(
        cls,
        serve: Serve,
        home: str,
        size: tuple[int, int],
        observe: Observe = "tree",
        *,
        pictures: PictureOptions = DEFAULT_PICTURES,
        is_own: bool = False,
        opens_home: bool = True,
    ) -> BrowserTools:
        """Returns tools in a new context of a browser; `open_home` must follow, unless its pages are restored.

        Args:
            serve: Answers the requests of its pages.
            home: As for the constructor, with `observe` and `pictures`.
            size: Width and height of the viewport, in pixels.
            observe: Form of what an act returns.
            pictures: What is taken after each act.
            is_own: True for a browser that no other attempt uses.
            opens_home: False to open an empty tab, in which pages are restored.

        Raises:
            UserError: No browser or no sandbox for it is here.
            EnvironmentFailure: It could not be started.
        """
        lease = await browser_pool().lease(is_own=is_own)
        context = await BrowserContext.open(lease, serve, *size, home if opens_home else BLANK)
        return cls(context, home, observe, pictures=pictures)

    @staticmethod
    def specs(pictures: PictureOptions = DEFAULT_PICTURES) -> tuple[ToolSpec, ...]:
        """Returns the tools in a stable order."""
        return (*_SPECS, computer.SPEC) if pictures.computer else _SPECS

    async def open_home(self) -> None:
        """Loads the start page. Raises `ActProblem`."""
        tab = self.context.current_tab()
        if not tab.is_open_at(self.home):
            await acts.go(tab, self.home)
        await tab.settle(frames=0)
        await tab.read()
        await capture(self.context)

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        """Calls a tool. Raises `EnvironmentFailure` if the browser is gone."""
        read = _read_call(name, arguments, self._pictures)
        if self.before_act is not None:
            await self.before_act(None if isinstance(read, str) else read[2])
        if isinstance(read, str):
            return Observation(read, error=True)
        name, act, parsed = read
        self._point, self._hit, tab = None, None, self.context.current
        try:
            text = await act(self, parsed)
            if text is None:
                text = await self.observer.observe_act(name, ActTarget(tab, self._point, self._hit))
            return Observation(text)
        except ActProblem as exc:
            await self.context.settle()  # an act that failed half-way may have sent a form
            await self.observer.keep_what_failed()
            return Observation(" ".join([str(exc), *self.context.take_notes()]), error=True)

    @property
    def held_modifiers(self) -> int:
        """Modifiers that are held, as flags of the protocol."""
        return self._held

    async def hold(self, flags: int) -> None:
        """Holds modifiers again. Raises `ActProblem`."""
        for key, flag in MODIFIERS.items():
            if flags & flag and not self._held & flag:
                await self._keyboard_hold(KeyboardDown(key))

    # Reading.

    async def _read(self, asked: ReadPage) -> str:
        if asked.view == "text":
            return await self.observer.read_text()
        return await self.observer.read_tree(with_boxes=asked.view == "layout")

    async def _screenshot(self, _: Screenshot) -> str:
        return await self.observer.take_screenshot()

    # Acts on elements.

    async def _at(self, bid: str) -> Point:
        self._point = await acts.point_of(self.context.current_tab(), acts.element_number(bid))
        return self._point

    async def _click(self, asked: Click) -> None:
        count = 2 if isinstance(asked, DblClick) else 1
        await acts.click(self.context.current_tab(), await self._at(asked.bid), asked.button, count, asked.modifiers)

    async def _hover(self, asked: Hover) -> None:
        await acts.move(self.context.current_tab(), await self._at(asked.bid))

    async def _fill(self, asked: Fill | Clear) -> None:
        value = asked.value if isinstance(asked, Fill) else ""
        await acts.fill(self.context.current_tab(), acts.element_number(asked.bid), value)

    async def _focus(self, asked: Focus) -> None:
        await acts.focus(self.context.current_tab(), acts.element_number(asked.bid))

    async def _select(self, asked: SelectOption) -> None:
        options = (asked.options,) if isinstance(asked.options, str) else asked.options
        await acts.choose(self.context.current_tab(), acts.element_number(asked.bid), options)

    async def _upload(self, asked: UploadFile) -> None:
        names = (asked.file,) if isinstance(asked.file, str) else asked.file
        await upload(self.context.current_tab(), acts.element_number(asked.bid), names, self.context.files)

    async def _press(self, asked: Press) -> None:
        tab = self.context.current_tab()
        await acts.focus(tab, acts.element_number(asked.bid))
        await acts.press(tab, asked.key_comb)

    async def _drag(self, asked: DragAndDrop) -> None:
        tab = self.context.current_tab()
        end = await acts.point_of(tab, acts.element_number(asked.to_bid))
        start = await self._at(asked.from_bid)
        if await acts.point_of(tab, acts.element_number(asked.to_bid)) != end:
            raise ActProblem("The elements are too far apart: both must fit into the viewport.")
        await acts.drag(tab, start, end)

    # Acts at coordinates.

    async def _scroll(self, asked: Scroll) -> None:
        middle = Point(self.context.width / 2, self.context.height / 2)
        await acts.scroll(self.context.current_tab(), middle, asked.delta_x, asked.delta_y)

    async def _scroll_at(self, asked: ScrollAt) -> None:
        await acts.scroll(self.context.current_tab(), self._aim(asked.x, asked.y), asked.dx, asked.dy)

    def _aim(self, x: float, y: float) -> Point:
        if x >= self.context.width or y >= self.context.height:
            raise ActProblem(f"The viewport has {self.context.width} x {self.context.height} pixels.")
        self._point = Point(x, y)
        return self._point

    async def _mouse_move(self, asked: MouseMove) -> None:
        await acts.move(self.context.current_tab(), self._aim(asked.x, asked.y))

    async def _mouse_click(self, asked: MouseClick) -> None:
        tab, at = self.context.current_tab(), self._aim(asked.x, asked.y)
        self._hit = await acts.element_at(tab, at)
        await acts.click(tab, at, asked.button, 2 if isinstance(asked, MouseDblClick) else 1)

    async def _mouse_button(self, asked: MouseClick) -> None:
        at = self._aim(asked.x, asked.y)
        self._hit = await acts.element_at(self.context.current_tab(), at)
        await acts.move(self.context.current_tab(), at, held="none" if isinstance(asked, MouseDown) else asked.button)
        await acts.press_button(self.context.current_tab(), at, asked.button, is_down=isinstance(asked, MouseDown))

    async def _mouse_drag(self, asked: MouseDragAndDrop) -> None:
        start, end = self._aim(asked.from_x, asked.from_y), self._aim(asked.to_x, asked.to_y)
        await acts.drag(self.context.current_tab(), start, end)

    async def _keyboard_press(self, asked: KeyboardPress) -> None:
        await acts.press(self.context.current_tab(), asked.key)

    async def _keyboard_hold(self, asked: KeyboardPress) -> None:
        if asked.key not in MODIFIERS:
            raise ActProblem(f"{asked.key[:40]!r} cannot be held: there are {', '.join(MODIFIERS)}.")
        is_down, flag = isinstance(asked, KeyboardDown), MODIFIERS[asked.key]
        self._held = self._held | flag if is_down else self._held & ~flag
        event = modifier_event(asked.key, self._held, is_down=is_down)
        await self.context.current_tab().call("Input.dispatchKeyEvent", **event)

    async def _keyboard_type(self, asked: KeyboardType) -> None:
        await acts.type_text(self.context.current_tab(), asked.text)

    async def _keyboard_insert(self, asked: KeyboardInsertText) -> None:
        await acts.insert_text(self.context.current_tab(), asked.text)

    # Navigation and tabs.

    async def _goto(self, asked: Goto) -> None:
        await acts.go(self.context.current_tab(), acts.checked_address(asked.url, self.home))

    async def _go_back(self, _: GoBack) -> None:
        await acts.go_in_history(self.context.current_tab(), -1)

    async def _go_forward(self, _: GoForward) -> None:
        await acts.go_in_history(self.context.current_tab(), 1)

    async def _new_tab(self, _: NewTab) -> None:
        await self.context.new_tab()
        await self.open_home()

    async def _tab_close(self, _: TabClose) -> None:
        is_last = len(self.context.tabs) <= 1
        await self.context.close_tab(self.context.current_tab())
        if is_last:
            await self.open_home()

    async def _tab_focus(self, asked: TabFocus) -> None:
        if asked.index >= len(self.context.tabs):
            raise ActProblem(f"The tab {asked.index} does not exist: the last one is {len(self.context.tabs) - 1}.")
        self.context.current = self.context.tabs[asked.index]

    async def _noop(self, asked: Noop) -> None:
        await asyncio.sleep(asked.wait_ms / 1000)

    # Words.

    async def _say(self, asked: SendMsgToUser) -> str:
        return acts.add_message(self.messages, "message", asked.text)

    async def _report(self, asked: ReportInfeasible) -> str:
        return acts.add_message(self.messages, "infeasible", asked.reason)


_Act = Callable[[BrowserTools, Any], Awaitable[str | None]]


def _read_call(
    name: str, arguments: dict[str, Any], pictures: PictureOptions
) -> tuple[str, _Act, msgspec.Struct] | str:
    """Returns a call with its arguments; where it is not well formed, what is wrong."""
    try:
        if name == computer.NAME and pictures.computer:
            name, arguments = computer.translate(arguments)
        if name not in _TOOLS:
            return f"Unknown tool {name[:80]!r}; there are {', '.join(_TOOLS)}."
        kind, act = _TOOLS[name]
        parsed = msgspec.convert(arguments, kind)
    except (msgspec.ValidationError, ValueError, RecursionError) as exc:
        takes = f"; it takes {', '.join(_TOOLS[name][0].__struct_fields__) or 'nothing'}" if name in _TOOLS else ""
        return f"Wrong arguments for {name}: {exc}{takes}."
    _, _, problem = readable_arguments(arguments)
    return f"Wrong arguments for {name}: {problem}" if problem else (name, act, parsed)


_TOOLS: Final[dict[str, tuple[type[msgspec.Struct], _Act]]] = {
    "click": (Click, BrowserTools._click),
    "dblclick": (DblClick, BrowserTools._click),
    "hover": (Hover, BrowserTools._hover),
    "fill": (Fill, BrowserTools._fill),
    "clear": (Clear, BrowserTools._fill),
    "focus": (Focus, BrowserTools._focus),
    "select_option": (SelectOption, BrowserTools._select),
    "upload_file": (UploadFile, BrowserTools._upload),
    "press": (Press, BrowserTools._press),
    "drag_and_drop": (DragAndDrop, BrowserTools._drag),
    "scroll": (Scroll, BrowserTools._scroll),
    "scroll_at": (ScrollAt, BrowserTools._scroll_at),
    "mouse_move": (MouseMove, BrowserTools._mouse_move),
    "mouse_click": (MouseClick, BrowserTools._mouse_click),
    "mouse_dblclick": (MouseDblClick, BrowserTools._mouse_click),
    "mouse_down": (MouseDown, BrowserTools._mouse_button),
    "mouse_up": (MouseUp, BrowserTools._mouse_button),
    "mouse_drag_and_drop": (MouseDragAndDrop, BrowserTools._mouse_drag),
    "keyboard_press": (KeyboardPress, BrowserTools._keyboard_press),
    "keyboard_down": (KeyboardDown, BrowserTools._keyboard_hold),
    "keyboard_up": (KeyboardUp, BrowserTools._keyboard_hold),
    "keyboard_type": (KeyboardType, BrowserTools._keyboard_type),
    "keyboard_insert_text": (KeyboardInsertText, BrowserTools._keyboard_insert),
    "goto": (Goto, BrowserTools._goto),
    "go_back": (GoBack, BrowserTools._go_back),
    "go_forward": (GoForward, BrowserTools._go_forward),
    "new_tab": (NewTab, BrowserTools._new_tab),
    "tab_close": (TabClose, BrowserTools._tab_close),
    "tab_focus": (TabFocus, BrowserTools._tab_focus),
    "noop": (Noop, BrowserTools._noop),
    "read_page": (ReadPage, BrowserTools._read),
    "screenshot": (Screenshot, BrowserTools._screenshot),
    "send_msg_to_user": (SendMsgToUser, BrowserTools._say),
    "report_infeasible": (ReportInfeasible, BrowserTools._report),
}
_SPECS: Final = tuple(
    ToolSpec(name, " ".join((kind.__doc__ or "").split()), flat_schema(kind)) for name, (kind, _) in _TOOLS.items()
)
