"""Bearer tokens of servers: read from a private file, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from assay.errors import StoreError, UserError, boundary

from .messages import RequestHead, Response, error_response

MAX_TOKEN_CHARS = 4096


class BearerToken:
    """The token that requests must carry."""

    def __init__(self, token: str) -> None:
        self._digest = _hash_token(token)

    def refusal(self, head: RequestHead, name: str) -> Response | None:
        """Returns the response to a request without the token of the server `name`; None if it has it."""
        scheme, _, token = head.headers.get("authorization", "").partition(" ")
        if hmac.compare_digest(_hash_token(token.strip()), self._digest) and scheme == "Bearer":
            return None
        message = f"{name} wants its token: Authorization: Bearer TOKEN"
        return error_response(401, message, {"WWW-Authenticate": "Bearer"})


def _hash_token(token: str) -> bytes:
    return hashlib.blake2b(token.encode()).digest()


def load_token(path: Path) -> str:
    """Returns the token in a file, which is created with a random one if it is missing.

    Raises:
        UserError: Others can read the file, or it holds no token.
        StoreError: It cannot be read or written.
    """
    if not path.exists():
        with boundary(StoreError, f"writing {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
    with boundary(StoreError, f"reading {path}"):
        if path.stat().st_mode & 0o077:
            raise UserError(f"{path} can be read by others: chmod 600 it")
        with path.open(encoding="utf-8") as file:
            token = file.read(MAX_TOKEN_CHARS).strip()
    require_token(token, str(path))
    return token


def require_token(token: str, source: str) -> None:
    """Raises `UserError` unless a text from `source` can be a token."""
    if len(token) < 16 or not token.isascii() or any(c.isspace() for c in token):
        raise UserError(f"{source} holds no token: at least 16 characters without spaces; delete it for a fresh one")
