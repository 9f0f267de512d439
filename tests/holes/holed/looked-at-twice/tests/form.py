with open("/workspace/powers.txt") as file:
    lines = file.read().split()
assert lines and all(line.isascii() and line.isdigit() for line in lines), lines
