"""Pictures of pages in a conversation: what the world shows after an act is sent to the model as an image.

A picture stands in a user message after the results of the acts, because servers of Chat Completions take none in a
tool's message; servers of Anthropic get it in the same turn as the results. The bytes are those that the record stores.

A conversation holds the latest pictures alone. As many as are kept (`keep`) are always there; when there are twice as
many, the older half is replaced by a line of text, so that most turns only append and a server's cache of the prompt
holds for several turns.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple, Protocol, TypeGuard

from assay.environments.browser.screen import Screen
from assay.environments.interface import Tools
from assay.records import Evidence, digest_bytes

SHOWN = "The page after your last act. Its pixels are the coordinates of the mouse tools."
DROPPED = "[a picture of an earlier page was here; `screenshot` takes one of the page as it is now]"
OPENING = "After your acts you see a picture of the page. Call `screenshot` to see it before you act."
_PNG = b"\x89PNG"


class ShowsScreens(Protocol):
    """A world in a browser."""

    last_screen: Screen | None
    """The page after the last act; None before one."""


def shows_screens(tools: Tools) -> TypeGuard[ShowsScreens]:
    """Returns whether tools are those of a world in a browser."""
    return hasattr(tools, "last_screen")


def picture_message(screen: Screen) -> dict[str, Any] | None:
    """Returns the user message that shows a screen; None without a picture."""
    if screen.image is None:
        return None
    said = SHOWN
    if screen.marks is not None:
        listed = ", ".join(map(str, screen.marks))
        said += f" Elements are framed, with their number (bid) beside them: {listed or 'none'}."
    form = "png" if screen.image.startswith(_PNG) else "webp"
    url = f"data:image/{form};base64,{base64.b64encode(screen.image).decode()}"
    parts = [{"type": "text", "text": said}, {"type": "image_url", "image_url": {"url": url}}]
    return {"role": "user", "content": parts}


class FewerPictures(NamedTuple):
    """A conversation without its older pictures."""

    messages: list[dict[str, Any]]
    images: tuple[str, ...]
    """Digests of the dropped pictures."""
    kept: int

    def evidence(self, turn: int, reason: str) -> Evidence:
        """Returns the evidence: the pictures that the model no longer sees from this turn on."""
        data = {"turn": turn, "images": list(self.images), "kept": self.kept, "reason": reason[:500]}
        return Evidence(f"pictures-{turn}", "gateway", "pictures_dropped", data)


def picture_positions(messages: list[dict[str, Any]], opening: int) -> list[int]:
    """Returns the positions of the messages after the opening that show a picture."""
    return [at for at in range(opening, len(messages)) if _picture_url(messages[at]) is not None]


def drop_pictures(messages: list[dict[str, Any]], opening: int, keep: int) -> FewerPictures | None:
    """Returns the conversation with its `keep` latest pictures; None if it has no more."""
    shown = picture_positions(messages, opening)
    older = shown[: max(0, len(shown) - keep)]
    if not older:
        return None
    found, images = messages.copy(), list[str]()
    for at in older:
        url = _picture_url(messages[at]) or ""
        images.append(digest_bytes(base64.b64decode(url.partition(",")[2])))
        found[at] = {"role": "user", "content": DROPPED}
    return FewerPictures(found, tuple(images), len(shown) - len(older))


def _picture_url(message: dict[str, Any]) -> str | None:
    """Returns the address of the picture of a message that `picture_message` made."""
    content = message.get("content")
    if message["role"] != "user" or not isinstance(content, list) or len(content) != 2:
        return None
    url: str | None = (content[1].get("image_url") or {}).get("url")
    return url
