#!/bin/sh
cat > /workspace/merge.py <<'PYTHON'
import json

with open("/workspace/contacts.json") as file:
    contacts = json.load(file)

people = {}
for contact in contacts:
    email = contact["email"].strip().lower()
    person = people.setdefault(email, {"email": email, "name": "", "tags": set()})
    if len(contact["name"]) > len(person["name"]):
        person["name"] = contact["name"]
    person["tags"].update(contact["tags"])

merged = [{**person, "tags": sorted(person["tags"])} for person in people.values()]
with open("/workspace/merged.json", "w") as file:
    json.dump(merged, file, indent=1)
PYTHON
python3 /workspace/merge.py
