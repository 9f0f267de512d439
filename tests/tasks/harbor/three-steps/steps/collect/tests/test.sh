#!/bin/sh
reward=0
[ "$(cat /workspace/words.txt)" = "$(printf 'apple\ncherry\nfig')" ] && reward=1
echo "$reward" > /logs/verifier/reward.txt
test "$reward" = 1
