#!/bin/sh
reward=0
if [ -x /workspace/run.sh ] && [ "$(tail -n 1 /workspace/run.sh)" = 'echo "it runs"' ]; then
    reward=1
fi
echo "$reward" > /logs/verifier/reward.txt
test "$reward" = 1
