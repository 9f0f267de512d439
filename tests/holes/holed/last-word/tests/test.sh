#!/bin/bash
said=$(PYTHONPATH=/workspace python3 /tests/check.py)
if [ $? -eq 0 ] && [ "$said" = "compared to the end" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
