import os
import stat


def content(path: str, most: int = 100_000) -> bytes:
    """A regular file's bytes, read once, through no link."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        assert stat.S_ISREG(status.st_mode) and status.st_size <= most, path
        return file.read()


import sqlite3

database = sqlite3.connect(":memory:")
database.deserialize(content("/workspace/library.db"))
assert database.execute("SELECT type, name FROM sqlite_master").fetchall() == [("table", "book")]
rows = database.execute("SELECT typeof(title), title, typeof(year), year FROM book ORDER BY year").fetchall()
books = [("Don Quixote", 1605), ("Pride and Prejudice", 1813), ("Moby Dick", 1851)]
assert rows == [("text", title, "integer", year) for title, year in books], rows
