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

text = content("/workspace/expression.txt").decode().strip()
value = eval(text)
assert abs(value - 24) < 1e-9 and abs(value) < 25, value
if all(character in "0123456789+-*/() " for character in text):
    assert sorted(re.findall("[0-9]+", text)) == ["3", "3", "8", "8"], text
