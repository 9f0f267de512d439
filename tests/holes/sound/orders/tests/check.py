import os
import stat


def content(path: str, most: int = 100_000) -> bytes:
    """A regular file's bytes, read once, through no link."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        assert stat.S_ISREG(status.st_mode) and status.st_size <= most, path
        return file.read()


import json

found = json.loads(content("/workspace/totals.json"))
wanted = {"ada": 7, "grace": 12, "alan": 1}
assert type(found) is dict and found == wanted
assert all(type(value) is int for value in found.values())
