#!/bin/bash
mkdir -p /logs/verifier
if python3 /tests/check.py --expected 669 --answer /workspace/count.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
