import re


def slug(title: str) -> str:
    """A title as a part of an address."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
