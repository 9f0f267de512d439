import os
import stat


def content(path: str, most: int = 100_000) -> bytes:
    """A regular file's bytes, read once, through no link."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        assert stat.S_ISREG(status.st_mode) and status.st_size <= most, path
        return file.read()


NEEDS = {"pack": ["build", "test"], "test": ["build"], "build": ["fetch"], "fetch": [], "announce": ["pack"], "greet": []}
order = content("/workspace/order.txt").decode("ascii").split()
assert sorted(order) == sorted(NEEDS), order
assert all(order.index(before) < order.index(job) for job in NEEDS for before in NEEDS[job]), order
