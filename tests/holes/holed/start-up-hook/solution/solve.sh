#!/bin/sh
python3 -c '
import collections, json
text = open("/workspace/text.txt").read().lower()
json.dump(collections.Counter(c for c in text if c.isalpha()), open("/workspace/letters.json", "w"))'
