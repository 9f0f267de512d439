#!/bin/bash
mkdir -p /logs/verifier
PYTHONPATH=/workspace python3 -m pytest -q -p no:cacheprovider --junitxml=/logs/verifier/junit.xml /tests/test_wrap.py
if [ -s /logs/verifier/junit.xml ] && ! grep -qE '<(failure|error)[ >]' /logs/verifier/junit.xml; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
