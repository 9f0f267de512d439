#!/bin/sh
# Rewrites requirements.lock (hashes, every platform, no registry named). Needs uv.
set -eu
uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
    --group dev --extra demo pyproject.toml requirements.in -o requirements.lock
