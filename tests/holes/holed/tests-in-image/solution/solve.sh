#!/bin/sh
echo '{"banana": 3, "house": 1, "elephant": 3, "computer": 3}' > /workspace/syllables.json
