#!/bin/sh
# The command-line agents that the whole test suite runs: installed into the cache from the registries of npm and pip.
# Tests of what is missing skip aloud. Usage: sh scripts/harnesses-for-tests.sh .venv/bin
set -eu
for name in claude-code codex pi playwright-mcp openai-agents smolagents; do
    "$1/assay" agents install "$name" >/dev/null ||
        printf 'assay: could not install %s: the tests that run it will be skipped\n' "$name" >&2
done
