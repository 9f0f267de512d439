#!/bin/sh
printf '{"length": 42, "unit": "%s"}\n' "$UNIT_TO_WRITE" > /workspace/answer.json
