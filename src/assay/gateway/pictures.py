"""Pictures in messages, named by the digest of their bytes in place of a `data:` address.

A request to a model holds a picture as a `data:` address, and each later request holds it again. The record holds the
digest in place of the address and the bytes once, so a page that a model saw ten times, and that evidence of kind
`screen` names too, is stored once. Damaged addresses stay as they are.

Not covered: pictures are not searched for secrets; and the raw bytes of a client's request, which are kept beside the
request, hold its pictures once more, packed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any

from assay.records import DIGEST_PREFIX

from .call_tree import content_text

NamePicture = Callable[[bytes], str]
"""Returns the digest of a picture, which it may store."""
_HEAD, _MARK = "data:image/", ";base64,"


def name_pictures(messages: Sequence[dict[str, Any]], name: NamePicture) -> Sequence[dict[str, Any]]:
    """Returns messages with digests in place of the `data:` addresses of pictures; those without pictures are the same
    objects."""
    if not any(type(message.get("content")) is list for message in messages):
        return messages
    return [_with_digests(message, name) for message in messages]


def text_of_parts(content: Any, name: NamePicture) -> str:
    """Returns content as text, in which a picture is its digest."""
    if not isinstance(content, list):
        return content_text(content)
    named = [_part(part, name) for part in content]
    return content_text([_as_words(part) for part in named])


def has_pictures(messages: Sequence[dict[str, Any]]) -> bool:
    """Returns whether a message shows a picture."""
    contents = [content for message in messages if isinstance(content := message.get("content"), list)]
    return any(isinstance(part, dict) and part.get("type") == "image_url" for parts in contents for part in parts)


def _as_words(part: Any) -> Any:
    image = part.get("image_url") if isinstance(part, dict) else None
    url = image.get("url") if isinstance(image, dict) else None
    if isinstance(url, str) and url.startswith(DIGEST_PREFIX):
        return {"type": "text", "text": f"[picture {url}]"}
    return part


def _with_digests(message: dict[str, Any], name: NamePicture) -> dict[str, Any]:
    content = message.get("content")
    if type(content) is not list:
        return message
    parts = [_part(part, name) for part in content]
    changed = any(one is not other for one, other in zip(parts, content, strict=True))
    return {**message, "content": parts} if changed else message


def _part(part: Any, name: NamePicture) -> Any:
    image = part.get("image_url") if isinstance(part, dict) else None
    url = image.get("url") if isinstance(image, dict) else image
    if not isinstance(url, str):
        return part
    named = None
    if url.startswith(DIGEST_PREFIX):
        # A client that sends a digest, in a part of any type, is not believed: the model never saw such a picture.
        named = f"external:{url}"
    elif isinstance(image, dict) and part.get("type") == "image_url":
        named = _name(url, name)
    if named is None:
        return part
    return {**part, "image_url": {**image, "url": named} if isinstance(image, dict) else named}


def _name(url: str, name: NamePicture) -> str | None:
    """Returns the digest of the picture in an address; None for another address, and a damaged one."""
    head, mark, data = url.partition(_MARK)
    if not mark or not head.startswith(_HEAD):
        return None
    try:
        return name(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return None
