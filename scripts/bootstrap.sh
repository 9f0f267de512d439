#!/bin/sh
# Makes the virtual environment from the lock file. Usage: PYTHON=python3.11 sh scripts/bootstrap.sh .venv
set -eu
venv=$1
say() { printf 'assay: %s\n' "$1" >&2; }
[ -n "${PYTHON:-}" ] || { say "Python 3.11 or newer is missing: install it, or run make PYTHON=/path/to/python3"; exit 1; }
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    say "$PYTHON is older than Python 3.11: install a newer one, or run make PYTHON=/path/to/python3"; exit 1; }
if ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing python$version-venv"
        { apt-get update -qq && apt-get install -y -qq "python$version-venv"; } >/dev/null
    else
        say "the venv module is missing: install the package python$version-venv"; exit 1
    fi
fi
[ -x "$venv/bin/python" ] || "$PYTHON" -m venv "$venv"
say "installing the locked dependencies (a minute the first time)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
