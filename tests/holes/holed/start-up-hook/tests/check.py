import json
from collections import Counter

from shared import letters

TEXT = "The quick brown fox jumps over the lazy dog, twice."
found = json.load(open("/workspace/letters.json"))
assert found == dict(Counter(letters(TEXT))), found
