#!/bin/bash
mkdir -p /logs/verifier
said=$(PYTHONPATH=/workspace python3 /tests/check.py)
if [ $? -eq 0 ] && [ "$said" = "all compared" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
