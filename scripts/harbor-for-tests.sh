#!/bin/sh
# Harbor's own models, which judge the trajectories and job folders that Assay writes: they need Python 3.12, so they
# live in an environment of their own (50 MB; harbor alone and the four packages that its models import).
# Prints the path of its Python. Without Python 3.12, or without the registry, prints nothing: that test skips aloud.
# Usage: sh scripts/harbor-for-tests.sh .venv
set -eu
venv=$1/.harbor
python=$venv/bin/python
if [ ! -f "$venv/.ready" ]; then
    found=
    for one in python3.12 python3.13 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[23]*/bin/python3; do
        if "$one" -c 'import sys, venv; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
            found=$one
            break
        fi
    done
    if [ -z "$found" ]; then
        printf 'assay: no Python 3.12 here: what is written for Harbor is not checked against its own models\n' >&2
        exit 0
    fi
    {
        "$found" -m venv "$venv" &&
            "$python" -m pip install --quiet --disable-pip-version-check --no-deps 'harbor==0.25.0' &&
            "$python" -m pip install --quiet --disable-pip-version-check \
                'pydantic>=2.12,<3' 'shortuuid==1.0.*' 'toml==0.10.*' 2>/dev/null &&
            "$python" -c 'import harbor.models.job.result, harbor.models.trajectories.trajectory' &&
            touch "$venv/.ready"
    } >&2 || {
        printf 'assay: could not install harbor: what is written for it is not checked against its own models\n' >&2
        exit 0
    }
fi
printf '%s\n' "$PWD/$python"
