#!/bin/bash
cd /workspace
python3 -m pytest -rA --ctrf /logs/verifier/ctrf.json /tests/test_words.py
if [ $? -eq 0 ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
