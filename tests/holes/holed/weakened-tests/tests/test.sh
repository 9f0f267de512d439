#!/bin/bash
# The tests were put into the tree when the task was set up.
cd /workspace
PYTHONPATH=. python3 -m pytest -q -p no:cacheprovider tests/test_weeks.py
if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
