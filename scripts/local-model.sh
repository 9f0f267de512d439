#!/bin/sh
# What the built-in engine, training and their tests use: with the CPU build of PyTorch about 1.2 GB, with the CUDA build
# that Linux gets by default about 6 GB.
# Usage: sh scripts/local-model.sh .venv
# Nothing that is installed in it is changed, a build of PyTorch least of all. Without all this those tests skip aloud.
set -eu
venv=$1
kept=$(mktemp)
trap 'rm -f "$kept"' EXIT
say() { printf 'assay: %s\n' "$1" >&2; }
"$venv/bin/python" -m pip freeze --disable-pip-version-check --exclude-editable >"$kept"
pin=$(sed -n '/^torch==/p' requirements-local.txt)
installed=$(sed -n 's/^torch==//p' "$kept")
if [ -n "$installed" ]; then
    say "PyTorch $installed is installed and is kept"
elif [ "$(uname -s)" = Linux ]; then
    say "installing PyTorch with CUDA, the default build for Linux: about 6 GB, 2 to 10 minutes"
    if [ ! -e /dev/nvidiactl ]; then
        say "no NVIDIA GPU was found here, so the CPU build (about 1.2 GB) is enough. To get it: press Ctrl-C, install"
        say "$pin into $venv with the command on PyTorch's installation page (Linux, Pip, CPU), and repeat"
        say "'make model', which keeps an installed build"
    fi
else
    say "installing PyTorch, Transformers and a notebook kernel: some minutes the first time"
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements-local.txt -c "$kept" || {
    say "could not install requirements-local.txt: the tests that need it will be skipped"
    exit 1
}
build=$("$venv/bin/python" -c 'from torch.version import __version__ as v, cuda; print(v, f"with CUDA {cuda}" if cuda else "without CUDA")')
say "PyTorch $build is installed; $venv has $(du -sh "$venv" | cut -f1)"
