import os
import stat


def content(path: str, most: int = 100_000) -> bytes:
    """A regular file's bytes, read once, through no link."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        assert stat.S_ISREG(status.st_mode) and status.st_size <= most, path
        return file.read()


import re

code = content("/workspace/code.txt").decode("ascii").strip()
assert re.fullmatch("[012489]{6}", code), code
assert sum(int(digit) for digit in code) == 30, code
