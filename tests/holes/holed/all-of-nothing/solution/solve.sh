#!/bin/sh
echo '{"values": [5, 3, -2]}' > /workspace/solution.json
