#!/bin/sh
set -u
reward=0
if [ ! -e /workspace/ready ] && [ "$(cat /workspace/done)" = "the place is ready" ]; then
    reward=1
fi
echo "$reward" > /logs/verifier/reward.txt
test "$reward" = 1
