#!/bin/sh
cat > /workspace/order.py <<'PYTHON'
needs = {}
with open("/workspace/targets.txt") as file:
    for line in file:
        name, _, rest = line.partition(":")
        needs[name.strip()] = rest.split()

order = []


def visit(name):
    if name in order:
        return
    for other in needs[name]:
        visit(other)
    order.append(name)


for name in needs:
    visit(name)
with open("/workspace/order.txt", "w") as file:
    file.write("".join(f"{name}\n" for name in order))
PYTHON
python3 /workspace/order.py
