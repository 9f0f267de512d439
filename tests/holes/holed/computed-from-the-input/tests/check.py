import csv
import sys

with open("/workspace/orders.csv", newline="") as file:
    wanted = sum(int(row["amount"]) for row in csv.DictReader(file))
with open("/workspace/total.txt") as file:
    answer = file.read().strip()
if answer != str(wanted):
    sys.exit(f"the total is {wanted}, not {answer!r}")
