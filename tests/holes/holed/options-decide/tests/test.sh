#!/bin/bash
cd /workspace
cp /tests/test_hidden.py tests/
python3 -m pytest -q --noconftest tests
if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
