wanted = [9, 196, 225, 8464]
try:
    found = [int(line) for line in open("/workspace/squares.txt")]
except (OSError, ValueError) as problem:
    found = []
    print(problem)
for place, value in enumerate(wanted):
    if found[place : place + 1] != [value]:
        print(f"line {place + 1} is wrong")
