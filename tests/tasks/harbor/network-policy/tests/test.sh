#!/bin/sh
# Without a network there is the loopback interface, perhaps with tunnels that lead nowhere.
if grep -qx lo /workspace/interfaces.txt && ! grep -Eq '^(eth|en|wl|docker|veth)' /workspace/interfaces.txt; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
    exit 1
fi
