import sys

from roman import number

CASES = {"III": 3, "IV": 4, "IX": 9, "XLII": 42, "MCMXCIV": 1994, "MMXXIV": 2024}
try:
    wrong = [text for text, wanted in CASES.items() if number(text) != wanted]
except Exception as problem:
    wrong = [repr(problem)]
print("compared to the end", flush=True)
sys.exit(1 if wrong else 0)
