"""The client's files: plain HTML, CSS and classic scripts, no build step, the same when served and when exported.

A page includes one script and one style sheet: every `*.js` and every `*.css` of the folder `assets` in a row, `core`
and `style` first, the rest by name. A browser opens six connections to a server, and forty files took half of the time
until a page was there.
"""

from __future__ import annotations

from functools import lru_cache
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
_JOINED = ("pages.css", "pages.js")


@lru_cache(1)
def read_assets() -> dict[str, bytes]:
    """Returns all files but `index.html`, by name."""
    found = [f for f in files(__package__).joinpath(_FOLDER).iterdir() if f.name.rpartition(".")[2] in TYPES]
    parts = {f.name: f.read_bytes() for f in sorted(found, key=lambda f: (f.name not in _FIRST, f.name))}
    assets = {name: body for name, body in parts.items() if name.endswith(".svg")}
    for joined in _JOINED:
        kind = joined.rpartition(".")[2]
        assets[joined] = b"\n".join(
            f"/* {name} */\n".encode() + body for name, body in parts.items() if name.endswith(f".{kind}")
        )
    return assets


def render_index(*, exported: bool = False) -> bytes:
    """Returns the page; an exported one has the policy as a tag, since no server sends headers."""
    text = files(__package__).joinpath(_FOLDER, "index.html").read_text("utf-8")
    tags = ['<link rel="stylesheet" href="pages.css">', '<script src="pages.js" defer></script>']
    if exported:
        policy = POLICY.partition("; frame-ancestors")[0].replace("connect-src 'self'", "connect-src 'none'")
        policy = policy.replace("'self'", "'self' file:")  # what is of one's own folder is not `self` to every browser
        tags.insert(0, f'<meta http-equiv="Content-Security-Policy" content="{policy}">')
        text = text.replace('data-source="server"', 'data-source="files"')
    return text.replace(_MARK, "\n    ".join(tags)).encode()
