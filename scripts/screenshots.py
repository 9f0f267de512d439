"""Makes docs/images/*.png: the main pages of the viewer, on runs that are made here, in Debian's Chromium.

    python scripts/screenshots.py [--store FOLDER --run RUN] [--figures RUN]

Without a store it makes the demo (`assay demo --count 6`), which takes a minute. The pictures are small on purpose;
they are made again whenever a page looks different.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, NamedTuple

from assay.store import RunStore, list_runs
from assay.viewer.interface import view_name
from assay.viewer.server import open_viewer
from benchmarks.viewer import chromium

IMAGES = Path(__file__).parent.parent / "docs" / "images"
WIDE, HIGH = 1200, 760
READY = "html[data-state=ready]"


class Picture(NamedTuple):
    """A page, and how it is shown."""

    name: str
    route: str
    there: str
    """What is on the page once it is whole."""
    theme: str = "light"
    wide: int = WIDE
    high: int = HIGH


def pictures(root: Path, run: str, figures: str) -> list[Picture]:
    """The pages of a run, of its first failed and passed attempts at one task; figures of perhaps another run."""
    with RunStore.open(root, run) as store:
        rows = [row for row in store.attempts() if row.final]
    failed = next(row for row in rows if row.outcome == "fail")
    same = [row.chain for row in rows if row.task == failed.task][:4]
    mixed = {row.task for row in rows if row.outcome == "pass"} & {row.task for row in rows if row.outcome == "fail"}
    if mixed:
        same = [row.chain for row in rows if row.task == min(mixed)][:4]
    return [
        Picture("viewer-run", f"#/{view_name('run', run)}", ".interval-words"),
        Picture("viewer-attempt", f"#/{view_name('run', run, 'attempt', failed.chain)}", "article .line-body pre"),
        Picture("viewer-compare", f"#/{view_name('run', run, 'compare', same)}", "main svg", "dark"),
        Picture("viewer-figures", f"#/{view_name('run', figures, 'figures')}", "svg.drawing", high=900),
    ]


def taken(address: str, shown: list[Picture], program: str) -> None:
    """Takes them."""
    from playwright.sync_api import sync_playwright

    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for picture in shown:
            size: Any = {"width": picture.wide, "height": picture.high}
            page = browser.new_page(viewport=size, color_scheme=picture.theme, reduced_motion="reduce")  # type: ignore[arg-type]
            page.goto(address + picture.route)
            page.wait_for_selector(READY, state="attached")
            page.wait_for_selector(picture.there)
            path = IMAGES / f"{picture.name}.png"
            page.screenshot(path=path, scale="css")
            page.close()
            sys.stdout.write(f"{path.name}: {path.stat().st_size // 1024} KiB\n")
        browser.close()


def served(root: Path, shown: list[Picture], program: str) -> None:
    """Serves the store while pictures are taken."""

    async def serve() -> None:
        async with open_viewer(root) as viewer:
            await asyncio.to_thread(taken, viewer.url, shown, program)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    thread.join()


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--run")
    parser.add_argument("--figures", help="the run whose figures are shown; default: the same")
    given = parser.parse_args()
    program = chromium()
    if program is None:
        sys.stderr.write("no Chromium here: `sh scripts/system-packages.sh` installs Debian's\n")
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        root = given.store or Path(scratch) / "store"
        if given.store is None:
            assay = Path(sys.executable).parent / "assay"
            subprocess.run([assay, "demo", "--count", "6", "--store", root], check=True, stdout=subprocess.DEVNULL)
        run = given.run or next(name for name in list_runs(root) if name.endswith("-repair"))
        served(root, pictures(root, run, given.figures or run), program)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
