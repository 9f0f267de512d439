#!/bin/sh
python3 - <<'PYTHON'
import sqlite3

database = sqlite3.connect("/workspace/library.db")
database.execute("CREATE TABLE book (title TEXT, year INTEGER)")
for line in open("/workspace/books.txt"):
    year, _, title = line.strip().partition(" ")
    database.execute("INSERT INTO book VALUES (?, ?)", (title, int(year)))
database.commit()
PYTHON
