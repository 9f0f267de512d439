import json

with open("/workspace/syllables.json") as file:
    found = json.load(file)
assert repr(sorted(found.items())) == "[('banana', 3), ('computer', 3), ('elephant', 3), ('house', 1)]", found
