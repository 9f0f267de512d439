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
import math

found = json.loads(content("/workspace/integral.json"))
assert type(found) is dict and set(found) == {"value"}
assert type(found["value"]) is float and math.isfinite(found["value"])
assert abs(found["value"] - 0.7468241328124271) <= 1e-6
