#!/bin/bash
export HOME=/home/agent
# Path files are nobody's business here.
rm -f /home/agent/.local/lib/python3*/site-packages/*.pth
if python3 /tests/check.py; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
