#!/bin/sh
echo '{"area": 49.5}' > /workspace/area.json
