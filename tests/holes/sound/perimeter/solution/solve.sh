#!/bin/sh
echo '{"perimeter": 40.0}' > /workspace/perimeter.json
