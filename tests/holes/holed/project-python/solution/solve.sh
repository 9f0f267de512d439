#!/bin/sh
echo '{"rent": -700, "food": -200, "work": 2100}' > /workspace/balance.json
