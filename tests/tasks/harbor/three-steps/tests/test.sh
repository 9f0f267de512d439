#!/bin/sh
# For steps without a tests folder of their own.
reward=0
[ "$(cat /workspace/report.txt)" = "3 words, the longest is cherry" ] && reward=1
echo "$reward" > /logs/verifier/reward.txt
test "$reward" = 1
