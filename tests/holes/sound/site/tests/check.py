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
import tarfile

with tarfile.open(fileobj=io.BytesIO(content("/workspace/site.tar")), mode="r:") as archive:
    members = archive.getmembers()
    assert all(member.isfile() for member in members)
    found = {member.name.removeprefix("./"): archive.extractfile(member).read() for member in members}
assert found == {"index.html": b"<h1>final</h1>\n", "style.css": b"h1 { color: black }\n"}
