"""Checks the URLs of model servers that users name."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from assay.errors import UserError


def check_url(url: str, what: str, credential: str) -> SplitResult:
    """Returns the parts of a usable URL."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as exc:
        raise UserError(f"{what} is not a valid URL: {exc}; expected for example http://127.0.0.1:8000/v1") from exc
    if parts.username is not None or parts.password is not None:
        raise UserError(
            f"{what}: a URL with a user name or password would be recorded; put the credential in {credential}"
        )
    if not usable:
        raise UserError(f"{what} is not a valid URL: {url!r}; expected for example http://127.0.0.1:8000/v1")
    return parts
