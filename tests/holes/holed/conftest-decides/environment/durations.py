import re


def seconds(text: str) -> int:
    """Seconds of a duration such as `1h30m`."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    if not text or found is None:
        raise ValueError(text)
    hours, minutes, rest = (int(part or 0) for part in found.groups())
    return hours * 3600 + rest
