"""What a program with psycopg2 does. usage: psycopg2_client.py PORT FLOWS"""

import datetime
import sys

import psycopg2
import psycopg2.extras

port, flows = int(sys.argv[1]), int(sys.argv[2])
place = f"host=127.0.0.1 port={port} user=ann dbname=flows"

connection = psycopg2.connect(place)
psycopg2.extras.register_ipaddress(connection)
cursor = connection.cursor()
cursor.execute("SELECT src_addr, bytes, start FROM flows LIMIT 1")
row = cursor.fetchone()
assert isinstance(row[1], int) and isinstance(row[2], datetime.datetime), row
cursor.execute("SELECT count(*) FROM flows WHERE src_addr = %s", (str(row[0].ip if hasattr(row[0], "ip") else row[0]),))
assert cursor.fetchone()[0] > 0
cursor.execute("SELECT count(*), sum(bytes) FROM flows WHERE dst_port = %s", (443,))
sums = cursor.fetchone()
print(f"sums {sums[0]},{sums[1]}")

many = connection.cursor(name="many")
many.itersize = 1000
many.execute("SELECT bytes FROM flows")
assert sum(1 for _ in many) == flows
many.close()
connection.rollback()

try:
    cursor.execute("DROP TABLE flows")
    raise AssertionError("DROP is not refused")
except psycopg2.errors.ReadOnlySqlTransaction:
    connection.rollback()
connection.close()
