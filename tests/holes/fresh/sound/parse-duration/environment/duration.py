"""Durations in words."""

UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def seconds(text):
    if not text[:-1].isdigit() or text[-1] not in UNITS:
        raise ValueError(text)
    return int(text[:-1]) * UNITS[text[-1]]
