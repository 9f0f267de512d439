"""HTML that is escaped by construction: text and attributes are escaped unless they were made here.

Invariant: `Html` comes from `element`, `join` and `document` alone, so a text of a user, of a table or of a request
never becomes markup, whatever characters it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, Union

_VOID: Final = frozenset({"br", "hr", "input", "link", "meta"})
_TEXT: Final = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}
_QUOTED: Final = _TEXT | {ord('"'): "&quot;", ord("'"): "&#39;", ord("\n"): "&#10;", ord("\r"): "&#13;"}

Attribute: TypeAlias = str | int | bool | None


class Html(str):
    """Markup. Never make one from a text that somebody else wrote."""

    __slots__ = ()


Content: TypeAlias = Union[str, "Iterable[Content]", None]
"""Text, markup, nothing, or several of them."""


def element(name: str, attributes: Mapping[str, Attribute] | None = None, *content: Content) -> Html:
    """Returns an element.

    Args:
        name: Name of the tag.
        attributes: Values; True is an attribute without a value, False and None are left out.
        content: What is inside.
    """
    written = [name]
    for key, value in (attributes or {}).items():
        if value is True:
            written.append(key)
        elif value is not None and value is not False:
            written.append(f'{key}="{str(value).translate(_QUOTED)}"')
    start = f"<{' '.join(written)}>"
    if name in _VOID:
        return Html(start)
    # A parser drops the first newline of these, so that a text that begins with one needs another.
    opening = "\n" if name in ("textarea", "pre") else ""
    return Html(f"{start}{opening}{join(*content)}</{name}>")


def join(*content: Content) -> Html:
    """Returns pieces one after the other; texts are escaped."""
    pieces: list[str] = []
    for piece in content:
        if isinstance(piece, Html):
            pieces.append(piece)
        elif isinstance(piece, str):
            pieces.append(piece.translate(_TEXT))
        elif piece is not None:
            pieces.append(join(*piece))
    return Html("".join(pieces))


def document(head: Html, body: Html) -> bytes:
    """Returns a whole page. Characters that UTF-8 cannot have are replaced."""
    return f"<!doctype html>\n{element('html', {'lang': 'en'}, head, body)}\n".encode("utf-8", "replace")
