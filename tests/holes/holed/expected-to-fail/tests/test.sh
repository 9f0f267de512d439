#!/bin/bash
cd /workspace
said=$(PYTHONPATH=. python3 -m pytest -q -p no:cacheprovider tests)
echo "$said"
# How many tests there are is known: none was deleted.
reward=0
if echo "$said" | grep -qE '^2 (passed|xfailed|xpassed)|^1 (passed|xfailed), 1 x'; then reward=1; fi
echo $reward > /logs/verifier/reward.txt
