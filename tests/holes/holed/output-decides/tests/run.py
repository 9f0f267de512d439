from middle import median

CASES = [([3, 1, 2], 2), ([4, 1, 3, 2], 2.5), ([5], 5), ([2, 1], 1.5)]
passed = failed = 0
for values, wanted in CASES:
    try:
        good = median(values) == wanted
    except Exception:
        good = False
    passed, failed = passed + good, failed + (not good)
print(f"{passed} passed" + (f", {failed} failed" if failed else ""))
