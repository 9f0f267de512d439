#!/bin/bash
mkdir -p /logs/verifier
# Written aside and moved into place, so that nobody has it open.
if [ "$(cat /workspace/reversed.txt 2> /dev/null)" = "desserts" ]; then echo 1; else echo 0; fi > /logs/verifier/.new
rm -f /logs/verifier/reward.json
mv /logs/verifier/.new /logs/verifier/reward.txt
