import os
import stat


def content(path: str, most: int = 100_000) -> bytes:
    """A regular file's bytes, read once, through no link."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        assert stat.S_ISREG(status.st_mode) and status.st_size <= most, path
        return file.read()


import io
import zipfile

with zipfile.ZipFile(io.BytesIO(content("/workspace/site.zip"))) as archive:
    names = archive.namelist()
    assert sorted(names) == ["index.html", "style.css"], names
    assert all(entry.file_size <= 1000 for entry in archive.infolist())
    assert archive.read("index.html") == b"<h1>final</h1>\n"
    assert archive.read("style.css") == b"h1 { color: black }\n"
