#!/bin/bash
mkdir -p /tmp/site /logs/verifier
python3 /tests/unpack.py /workspace/site.tar /tmp/site
if python3 /tests/check.py && [ ! -e /logs/verifier/failed ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
