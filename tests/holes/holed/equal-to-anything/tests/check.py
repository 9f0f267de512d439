from spans import merged

CASES = [
    ([(5, 8), (1, 3), (2, 4)], [(1, 4), (5, 8)]),
    ([(1, 2), (2, 3)], [(1, 3)]),
    ([], []),
]
for given, wanted in CASES:
    assert merged(given) == wanted
print("all compared")
