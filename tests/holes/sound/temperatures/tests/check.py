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

rows = [json.loads(line) for line in content("/workspace/fahrenheit.jsonl").decode("utf-8").splitlines()]
wanted = [("hill", 41), ("lake", 68), ("town", 14)]
assert [(row["station"], row["fahrenheit"]) for row in rows] == wanted
assert all(set(row) == {"station", "fahrenheit"} and type(row["fahrenheit"]) is int for row in rows)
