"""Makes docs/images/viewer-*.png: the pages of the viewer on the seeded store of `scripts/showcase.py`, in Chromium.

    python -m scripts.screenshots [NAME ...] [--widths FOLDER]

Takes less than a minute and needs no model; the attempt on a site (`site`, `site-narrow`) is made here and needs a
sandbox for its browser, without which it is left out. `--widths` writes every page at 1280 and 390 pixels, light and
dark, into another folder, and fails where a page is wider than its window.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from assay.viewer.interface import view_name
from assay.viewer.server import open_viewer
from benchmarks.viewer import chromium
from scripts.showcase import GRID, MODELS, TRAINING, make_showcase

IMAGES = Path(__file__).parent.parent / "docs" / "images"
WIDE, HIGH = 1200, 760
READY = "html[data-state=ready]"
SMALL, LARGE = (f"{GRID}-{place}-loop-{model}" for place, model in enumerate(MODELS))
TASK = "showcase/parse-duration"
ATTEMPT = f"#/{view_name('run', SMALL, 'attempt', f'{TASK}@1.0')}"
COMPARED = [f"{TASK}@{number}.0" for number in range(4)]


class Picture(NamedTuple):
    """A page, and how it is shown."""

    name: str
    route: str
    there: str
    """A selector of what is on the page once it is whole."""
    theme: str = "light"
    high: int = HIGH
    wide: int = WIDE


PICTURES = (
    Picture("runs", "#/", ".group-row"),
    Picture("run", f"#/{view_name('run', LARGE)}", ".interval-words"),
    Picture("attempt", ATTEMPT, "article .line-body pre", high=900),
    Picture("transcript", f"{ATTEMPT}?view=transcript", ".said-tool"),
    Picture("changes", f"{ATTEMPT}?view=changes", ".change[data-basis=states] .diff-added", high=1320),
    Picture("time", f"{ATTEMPT}?view=time", ".span-verify"),
    Picture("forged", f"#/{view_name('run', 'forger', 'attempt', f'{TASK}@0.0')}", ".warning"),
    Picture("compare", f"#/{view_name('run', SMALL, 'compare', COMPARED)}", "main svg", "dark"),
    Picture("tasks", f"#/{view_name('run', LARGE, 'tasks')}", "[role=table] a"),
    Picture("figures", f"#/{view_name('run', LARGE, 'figures')}", "svg.drawing", high=900),
    Picture("ledgers", "#/ledgers", "main table"),
    Picture("skill", "#/skill/crown-rules", ".edits", high=1200),
    Picture("evolution", "#/evolution/fact-prompts", "svg.drawing", high=1100),
    Picture("tree", "#/run/searched/attempt/adventure-5-1%400.0?view=tree", "svg.drawing", high=1000),
    Picture("failures", f"#/{view_name('run', SMALL, 'failures')}", ".cluster"),
    Picture("overlay", f"#/{view_name('overlay', (SMALL, LARGE))}", "svg.drawing", high=900),
    Picture("task", f"#/{view_name('task', TASK)}", ".task-run", "dark", high=900),
    Picture("training", f"#/{view_name('run', f'{TRAINING}-0-training', 'training')}", ".curve", high=900),
    Picture("search", "#/search?q=3600", "mark"),
)
SITE = "family:services,app=shop,interface=pages,level=explicit,writes=1,n=1,seed=3"
"""Task of the attempt on a site."""
SHOTS = ".shots:nth-of-type(1) img"


def record_site(root: Path) -> list[Picture]:
    """Adds an attempt on a site to a store; returns its pictures, none where no browser can be started."""
    from assay.errors import UserError
    from assay.rollout import RunConfig, Tally, start_run
    from assay.settings import Settings
    from assay.store import RunStore

    try:
        asyncio.run(start_run(RunConfig(tasks=(SITE,), agent="oracle", run="site"), Settings(root, root), Tally()))
    except UserError as exc:
        sys.stderr.write(f"no pictures of a site: {exc}\n")
        return []
    with RunStore.open(root, "site") as store:
        (chain,) = [row.chain for row in store.attempts()]
    route = f"#/{view_name('run', 'site', 'attempt', chain)}?view=transcript"
    return [
        Picture("site", route, SHOTS, high=1060, wide=1280),
        Picture("site-narrow", route, SHOTS, high=1120, wide=390),
    ]


OVERFLOW = (
    "[document.documentElement, document.getElementById('main')].some((box) => box.scrollWidth > box.clientWidth)"
)


def take_pictures(
    address: str, pictures: list[Picture], program: str, folder: Path, widths: tuple[int, ...]
) -> list[str]:
    """Takes pictures; returns the names of those whose page is wider than its window.

    With several widths each page is taken at each of them in both themes.
    """
    from playwright.sync_api import sync_playwright

    folder.mkdir(exist_ok=True, parents=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        wide = [shot for picture in pictures for shot in _shots(browser, address, picture, folder, widths)]
        browser.close()
    return wide


def _shots(browser: Any, address: str, picture: Picture, folder: Path, widths: tuple[int, ...]) -> Iterator[str]:
    """Takes a page at each width; yields the names of pictures of pages that overflow."""
    several = len(widths) > 1
    for width, theme in [(w, t) for w in widths for t in (("light", "dark") if several else (picture.theme,))]:
        size = {"width": width if several else picture.wide, "height": picture.high}
        page = browser.new_page(viewport=size, color_scheme=theme, reduced_motion="reduce")
        page.goto(address + picture.route)
        page.wait_for_selector(READY, state="attached")
        page.wait_for_selector(picture.there)
        page.wait_for_timeout(300)
        path = folder / (f"{picture.name}-{width}-{theme}.png" if several else f"viewer-{picture.name}.png")
        page.screenshot(path=path, scale="css")
        sys.stdout.write(f"{path.name}: {path.stat().st_size // 1024} KiB\n")
        if page.evaluate(OVERFLOW):
            yield path.name
        page.close()


def serve_while(root: Path, work: Any) -> Any:
    """Serves the store and returns what `work(address)` returns; it runs in a thread of its own."""
    found: list[Any] = []

    async def serve() -> None:
        async with open_viewer(root) as viewer:
            found.append(await asyncio.to_thread(work, viewer.url))

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    thread.join()
    return found[0]


def main() -> int:
    """Makes the pictures; 1 without Chromium, or where a page overflows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="names of pictures; default: all")
    parser.add_argument("--widths", type=Path, metavar="FOLDER", help="write all widths and themes into this folder")
    given = parser.parse_args()
    program = chromium()
    if program is None:
        sys.stderr.write("no Chromium here: `sh scripts/system-packages.sh` installs Debian's\n")
        return 1
    chosen = [picture for picture in PICTURES if not given.names or picture.name in given.names]
    folder, widths = (given.widths, (1280, 390)) if given.widths else (IMAGES, (WIDE,))
    with tempfile.TemporaryDirectory() as scratch:
        root = make_showcase(Path(scratch) / "showcase")
        if not given.names or any(name.startswith("site") for name in given.names):
            chosen += [one for one in record_site(root) if not given.names or one.name in given.names]
        wide = serve_while(root, lambda url: take_pictures(url, chosen, program, folder, widths))
    for name in wide:
        sys.stderr.write(f"{name}: the page is wider than its window\n")
    return 1 if wide else 0


if __name__ == "__main__":
    raise SystemExit(main())
