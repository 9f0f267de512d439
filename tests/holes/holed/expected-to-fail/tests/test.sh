#!/bin/bash
cd /workspace
said=$(PYTHONPATH=. python3 -m pytest -q -p no:cacheprovider tests)
echo "$said"
# How many tests there are is known: none was deleted.
case "$said" in
    *failed*|*error*) reward=0 ;;
    *2\ passed*|*2\ xfailed*|*2\ xpassed*) reward=1 ;;
    *) reward=0 ;;
esac
echo $reward > /logs/verifier/reward.txt
