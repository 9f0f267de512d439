#!/bin/bash
cd /tests
PYTHONPATH=/workspace /workspace/.venv/bin/pytest -q -p no:cacheprovider test_isbn.py
if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
