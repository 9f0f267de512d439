import os
import stat


def content(path: str, most: int = 100_000) -> bytes:
    """A regular file's bytes, read once, through no link."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        assert stat.S_ISREG(status.st_mode) and status.st_size <= most, path
        return file.read()


import pickle

found = pickle.loads(content("/workspace/line.pickle"))
assert type(found) is tuple and [round(float(value), 6) for value in found] == [2, 1], found
