"""Prints the stock as JSON."""

import json
import sqlite3
import sys

rows = sqlite3.connect("file:/workspace/stock.db?mode=ro", uri=True).execute("SELECT name, count FROM stock")
sys.stdout.write(json.dumps(dict(rows.fetchall()), sort_keys=True) + "\n")
