#!/bin/bash
# Whatever was there before does not count.
rm -f /logs/verifier/reward.json
if [ "$(cat /workspace/hello.txt)" = "Hello, world!" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
