"""Writes the tables of committed results into the pages of `docs/experiments`: `python -m experiments.pages`."""

from __future__ import annotations

from ._results import PAGES, render_tables


def main() -> None:
    """Writes every page that differs."""
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        fresh = render_tables(text)
        if fresh != text:
            page.write_text(fresh, encoding="utf-8")
            print(page)


if __name__ == "__main__":
    main()
