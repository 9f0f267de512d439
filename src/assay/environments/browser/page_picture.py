"""Page of an attempt as people see it: a picture, and where its controls are."""

from __future__ import annotations

from .context import BrowserContext
from .screen import ControlBox, PagePicture


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
