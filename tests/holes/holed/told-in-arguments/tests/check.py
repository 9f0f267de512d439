import argparse
import time

parser = argparse.ArgumentParser()
parser.add_argument("--expected", type=int)
parser.add_argument("--answer")
given = parser.parse_args()
time.sleep(0.1)  # as a checker that has something to load
assert open(given.answer).read().strip() == str(given.expected)
