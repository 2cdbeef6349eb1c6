"""Runs statements, one JSON text a line, on the database named, and answers with the seconds that each took."""

import json
import os
import sys
import time

import duckdb

# a file that is there is only read, so that several may
connection = duckdb.connect(sys.argv[1], read_only=os.path.exists(sys.argv[1]))
connection.execute("SET TimeZone = 'UTC'")
connection.execute("SET preserve_insertion_order = false")
connection.execute("SET enable_progress_bar = false")
for line in sys.stdin:
    statement = json.loads(line)
    began = time.monotonic()
    connection.execute(statement)
    print(json.dumps(time.monotonic() - began), flush=True)
