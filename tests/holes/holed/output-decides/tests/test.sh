#!/bin/bash
cd /workspace
PYTHONPATH=/workspace python3 /tests/run.py > /tmp/output.txt 2>&1
if grep -E '[1-9][0-9]* passed' /tmp/output.txt | grep -vq failed; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
