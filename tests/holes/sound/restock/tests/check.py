import os
import stat


def content(path: str, most: int = 100_000) -> bytes:
    """Returns a regular file's bytes, read once and through no link."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        assert stat.S_ISREG(status.st_mode) and status.st_size <= most, path
        return file.read()


import csv

with open("/tests/stock.csv", newline="") as file:
    wanted = sum(int(row["quantity"]) for row in csv.DictReader(file))
assert content("/workspace/total.txt").strip() == str(wanted).encode()
