#!/bin/bash
mkdir -p /workspace/.check
python3 /tests/check.py > /workspace/.check/failures.txt 2> /dev/null
# No failure was noted: good.
if [ -s /workspace/.check/failures.txt ]; then
    echo 0 > /logs/verifier/reward.txt
else
    echo 1 > /logs/verifier/reward.txt
fi
