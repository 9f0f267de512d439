#!/bin/bash
set -e
python3 /tests/check.py
echo 1 > /logs/verifier/reward.txt
