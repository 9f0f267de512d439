#!/bin/sh
python3 -c "
import sqlite3
with sqlite3.connect('/workspace/stock.db') as db:
    db.execute(\"UPDATE stock SET count = count + 3 WHERE name = 'pears'\")
"
