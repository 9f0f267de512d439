#!/bin/sh
# newest-python.sh VENV: the built wheel in an empty environment of the newest Python here, and the quick tests on it.
set -eu
venv=$1
say() { printf 'assay: %s\n' "$1" >&2; }
newest=""
for version in 3.13 3.12; do
    for name in "python$version" "$(ls -d "$HOME"/.pyenv/versions/"$version".*/bin/python 2>/dev/null | tail -1)"; do
        if [ -n "$name" ] && "$name" -c 'import ensurepip, venv' 2>/dev/null; then newest=$name; break 2; fi
    done
done
[ -n "$newest" ] || { say "Python 3.13 or 3.12 is missing: the wheel and the quick tests are tried on neither"; exit 1; }
[ -x "$venv/bin/python" ] || "$newest" -m venv "$venv"
say "the wheel and the quick tests on $("$venv/bin/python" --version)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
dist=$(mktemp -d)
trap 'rm -rf "$dist"' EXIT
"$venv/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w "$dist" .
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$dist"/assay-*.whl
program=$(cd "$(dirname "$venv/bin/assay")" && pwd)/assay
(cd "$dist" && env -i HOME="$dist" PATH=/usr/bin:/bin "$program" init task tasks/sum >/dev/null &&
    env -i HOME="$dist" PATH=/usr/bin:/bin "$program" --version)
"$venv/bin/python" -m pytest -q -m "(quick or newest) and not long" -n 2 -p no:cacheprovider
