import os
import stat


def content(path: str, most: int = 100_000) -> bytes:
    """Returns a regular file's bytes, read once and through no link."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        assert stat.S_ISREG(status.st_mode) and status.st_size <= most, path
        return file.read()


import json

with open("/tests/settings.json") as file:
    tolerance = json.load(file)["tolerance"]
perimeter = json.loads(content("/workspace/perimeter.json"))["perimeter"]
assert type(perimeter) in (int, float)
assert abs(perimeter - 40.0) <= tolerance
