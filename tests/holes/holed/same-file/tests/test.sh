#!/bin/bash
mkdir -p /logs/verifier
reward=0
# No link is followed.
if python3 /tests/form.py && [ ! -L /workspace/days.txt ]; then
    cmp /tests/expected.txt /workspace/days.txt && reward=1
fi
echo $reward > /logs/verifier/reward.txt
