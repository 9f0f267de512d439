import os
import stat


def content(path: str, most: int = 100_000) -> bytes:
    """Returns a regular file's bytes, read once and through no link."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        assert stat.S_ISREG(status.st_mode) and status.st_size <= most, path
        return file.read()


import hashlib

with open("/tests/SHA256SUMS") as file:
    for line in file:
        digest, name = line.split()
        assert hashlib.sha256(content(f"/workspace/{name}")).hexdigest() == digest, name
