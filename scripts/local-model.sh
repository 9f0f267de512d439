#!/bin/sh
# What the tests of the built-in engine and of the notebooks use, about 1.2 GB with PyTorch for the CPU.
# Usage: sh scripts/local-model.sh .venv
# Nothing that the lock installed is changed. Without it those tests skip aloud.
set -eu
venv=$1
kept=$(mktemp)
trap 'rm -f "$kept"' EXIT
"$venv/bin/python" -m pip freeze --disable-pip-version-check --exclude-editable >"$kept"
printf 'assay: installing PyTorch, Transformers and a notebook kernel for the tests (a minute or two the first time)\n' >&2
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements-local.txt -c "$kept" || {
    printf 'assay: could not install requirements-local.txt: the tests that need it will be skipped\n' >&2
    exit 1
}
