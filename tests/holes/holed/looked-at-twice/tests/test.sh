#!/bin/bash
mkdir -p /logs/verifier
reward=0
# First its form: a file of its own, with numbers alone. Then its content.
if [ -f /workspace/powers.txt ] && [ ! -L /workspace/powers.txt ] && python3 /tests/form.py; then
    cmp /tests/expected.txt /workspace/powers.txt && reward=1
fi
echo $reward > /logs/verifier/reward.txt
