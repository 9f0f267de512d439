#!/bin/sh
# Trainers whose own parsers the exports are checked with. Usage: sh scripts/trainers-for-tests.sh FOLDER
# Then: ASSAY_TRAINERS=FOLDER python -m pytest tests/learning/export/test_consumers.py
# verl and SkyRL need a GPU and other Pythons to run, so their wheels are unpacked and their parsing code is read from
# there; Tinker's SDK is installed into FOLDER/venv. About 10 MB and a minute. prime-rl is in no package registry.
set -eu
folder=$1
python=${PYTHON:-python3}
mkdir -p "$folder/wheels"
for wheel in verl==0.9.1 skyrl==0.4.0; do
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
        --python-version 3.12 --dest "$folder/wheels" "$wheel"
done
for file in "$folder"/wheels/*.whl; do
    name=$(basename "$file")
    "$python" -m zipfile -e "$file" "$folder/${name%%-*}"
done
[ -d "$folder/venv" ] || "$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check tinker==0.38.0 pyarrow
