"""Pictures in recorded requests: stored once by content, and named by their digest in the record.

A request to a model holds a picture as a `data:` address, and each later request holds it again. The record holds the
digest in place of the address, so a page that a model saw ten times, and that evidence of kind `screen` names too, is
stored once. `data:` addresses that are damaged stay as they are.

Not covered: pictures are not searched for secrets; and the raw bytes of a client's request, which are kept beside the
request, hold its pictures once more, packed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from assay.records import DIGEST_PREFIX
from assay.store import BlobStore

_HEAD, _MARK = "data:image/", ";base64,"


def store_pictures(messages: Sequence[dict[str, Any]], blobs: BlobStore) -> Sequence[dict[str, Any]]:
    """Returns messages with the digests of their pictures, which are stored, in place of `data:` addresses; messages
    without pictures are the same objects."""
    if not any(type(message.get("content")) is list for message in messages):
        return messages
    return [_with_digests(message, blobs) for message in messages]


def _with_digests(message: dict[str, Any], blobs: BlobStore) -> dict[str, Any]:
    content = message.get("content")
    if type(content) is not list:
        return message
    parts = [_part(part, blobs) for part in content]
    changed = any(one is not other for one, other in zip(parts, content, strict=True))
    return {**message, "content": parts} if changed else message


def _part(part: Any, blobs: BlobStore) -> Any:
    image = part.get("image_url") if isinstance(part, dict) and part.get("type") == "image_url" else None
    if not isinstance(image, dict) or not isinstance(url := image.get("url"), str):
        return part
    stored = f"external:{url}" if url.startswith(DIGEST_PREFIX) else _store(url, blobs)
    return part if stored is None else {**part, "image_url": {**image, "url": stored}}


def _store(url: str, blobs: BlobStore) -> str | None:
    """Returns the digest of the picture in an address; None for another address, and a damaged one."""
    head, mark, data = url.partition(_MARK)
    if not mark or not head.startswith(_HEAD):
        return None
    try:
        return blobs.put(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return None
