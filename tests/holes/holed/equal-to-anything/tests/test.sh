#!/bin/bash
PYTHONPATH=/workspace python3 -m pytest -q -p no:cacheprovider /tests/test_spans.py
if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
