#!/bin/sh
cat > /workspace/totals.json <<'JSON'
{"ada": 7, "grace": 12, "alan": 1}
JSON
