#!/bin/bash
cd /workspace
python3 -c '
import json
assert json.load(open("turned.json")) == [[1, 4], [2, 5], [3, 6]]
'
if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
