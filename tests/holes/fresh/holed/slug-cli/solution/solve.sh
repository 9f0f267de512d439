#!/bin/sh
cat > /workspace/slugify.py <<'PYTHON'
import argparse
import re
import sys


def slugify(text, sep="-", limit=None):
    words = [word for word in re.split("[^a-z0-9]+", text.lower()) if word]
    slug = sep.join(words)
    if limit is not None:
        slug = slug[:limit]
        while sep and slug.endswith(sep):
            slug = slug[: -len(sep)]
    return slug


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sep", default="-")
    parser.add_argument("--max", type=int, default=None)
    parser.add_argument("text", nargs="+")
    args = parser.parse_args()
    slugs = [slugify(text, args.sep, args.max) for text in args.text]
    if not all(slugs):
        sys.stderr.write("nothing is left of a text\n")
        return 2
    sys.stdout.write("".join(slug + "\n" for slug in slugs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
PYTHON
