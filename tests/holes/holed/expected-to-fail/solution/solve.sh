#!/bin/sh
sed -i 's/bisect(values/bisect_left(values/; s/import bisect$/import bisect_left/' /workspace/search.py
