#!/bin/bash
# Run from the workspace, so that the module under test is found.
cd /workspace
cp /tests/test_words.py /tmp/test_words.py
python3 -m pytest -q -p no:cacheprovider --rootdir=/tmp -c /dev/null /tmp/test_words.py
if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
