import re
import unicodedata


def slug(title: str) -> str:
    """A title as a part of an address."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
