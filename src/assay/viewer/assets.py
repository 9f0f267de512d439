"""The client's files: plain HTML, CSS and classic scripts, no build step, the same when served and when exported.

Each page includes every `*.js` and `*.css` of the folder `assets`: `core` first, the rest by name.
"""

from __future__ import annotations

from importlib.resources import files

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The content security policy of every page: no foreign or inline resources, no evaluated code."""
_MARK = "<!-- parts -->"
_FIRST = ("core.js", "style.css")
_FOLDER = "assets"


def asset_names() -> tuple[str, ...]:
    """Returns the names of all files but `index.html`, in the order in which a page includes them."""
    found = [f.name for f in files(__package__).joinpath(_FOLDER).iterdir() if f.name.partition(".")[2] in TYPES]
    rest = sorted(name for name in found if name not in _FIRST and not name.endswith(".html"))
    return (*(name for name in _FIRST if name in found), *rest)


def read_asset(name: str) -> bytes:
    """Returns a file's bytes. Raises `KeyError` for a name that is not in `asset_names`."""
    if name not in asset_names():
        raise KeyError(name)
    return files(__package__).joinpath(_FOLDER, name).read_bytes()


def render_index(*, exported: bool = False) -> bytes:
    """Returns the page; an exported one has the policy as a tag, since no server sends headers."""
    text = files(__package__).joinpath(_FOLDER, "index.html").read_text("utf-8")
    tags = []
    for name in asset_names():
        if name.endswith(".css"):
            tags.append(f'<link rel="stylesheet" href="{name}">')
        elif name.endswith(".js"):
            tags.append(f'<script src="{name}" defer></script>')
    if exported:
        policy = POLICY.partition("; frame-ancestors")[0].replace("connect-src 'self'", "connect-src 'none'")
        policy = policy.replace("'self'", "'self' file:")  # what is of one's own folder is not `self` to every browser
        tags.insert(0, f'<meta http-equiv="Content-Security-Policy" content="{policy}">')
        text = text.replace('data-source="server"', 'data-source="files"')
    return text.replace(_MARK, "\n    ".join(tags)).encode()
