import os
import stat


def content(path: str, most: int = 100_000) -> bytes:
    """A regular file's bytes, read once, through no link."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        assert stat.S_ISREG(status.st_mode) and status.st_size <= most, path
        return file.read()


words = content("/workspace/flag.pgm").decode("ascii").split()
assert words[:4] == ["P2", "6", "4", "255"], words[:4]
assert [words[i : i + 6] for i in range(4, len(words), 6)] == [["0"] * 3 + ["255"] * 3] * 4
