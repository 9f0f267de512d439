"""Pictures of an attempt's pages: what is taken after an act, and the page as people see it, with its controls.

A picture has the size of the viewport, so its pixels are the coordinates of the tools `mouse_*`.
"""

from __future__ import annotations

import base64
from typing import Final, NamedTuple

from .context import BrowserContext
from .marks import take_marked_picture
from .picture_options import PictureOptions
from .screen import ControlBox, PagePicture
from .tab import Tab


class PageImage(NamedTuple):
    """A picture of a page, and the numbers that are marked in it; `Screen` says when they are None."""

    image: bytes | None
    marks: tuple[int, ...] | None = None


NO_IMAGE: Final = PageImage(None)


async def take_image(tab: Tab, context: BrowserContext, options: PictureOptions) -> PageImage:
    """Returns a picture of the viewport, with marks on the elements of the tree read last if they are wanted. Raises
    `ActProblem`."""
    if options.marks:
        marked = await take_marked_picture(tab, context.width, context.height, options.picture_type)
        return PageImage(marked.image, tuple(mark.number for mark in marked.marks))
    if options.picture_type == "png":
        return PageImage(base64.b64decode(await tab.capture("png")))
    return PageImage(await tab.screenshot())


async def take_page_picture(context: BrowserContext) -> PagePicture:
    """Returns the page that is shown; it is no act, and elements keep their numbers. Raises `ActProblem`."""
    tab = context.current_tab()
    await tab.settle()
    before = tab.last
    tree = (await tab.read(with_boxes=True)).tree
    tab.last = before  # the next act is compared with what the agent has read
    nodes = [(number, one.node) for number, one in tab.numbering.elements.items()]
    elements = tuple(
        ControlBox(number, node.r, node.t, node.v or "", node.s, node.o, node.b) for number, node in nodes if node.b
    )
    return PagePicture(tree.url, tree.title, context.width, context.height, await tab.screenshot(), elements)
