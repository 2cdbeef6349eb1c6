"""What a program with DuckDB does with tables that it attaches. usage: duckdb_attach.py PORT FLOWS"""

import datetime
import ipaddress
import sys

import duckdb
import duckdb_extensions

port, flows = int(sys.argv[1]), int(sys.argv[2])
place = f"host=127.0.0.1 port={port} user=ann dbname=flows"

duckdb_extensions.import_extension("postgres_scanner")
duck = duckdb.connect()
duck.execute("LOAD postgres_scanner")


def rows(statement):
    return duck.execute(statement).fetchall()


duck.execute(f"ATTACH '{place}' AS weir (TYPE postgres, READ_ONLY)")
# as it reads unless it is told otherwise
try:
    rows("SELECT bytes FROM weir.flows")
    raise AssertionError("COPY is not refused")
except duckdb.Error as error:
    assert "pg_use_text_protocol" in str(error), error
duck.execute("SET pg_use_text_protocol = true")

tables = {name for (name,) in rows("SELECT table_name FROM duckdb_tables() WHERE database_name = 'weir' AND schema_name = 'public'")}
views = {name for (name,) in rows("SELECT view_name FROM duckdb_views() WHERE database_name = 'weir' AND schema_name = 'public'")}
assert {"flows", "exporter_books"} <= tables | views, (tables, views)
types = {name: kind for name, kind, *_ in rows("DESCRIBE weir.flows")}
for name, kind in (("bytes", "BIGINT"), ("src_addr", "VARCHAR"), ("start", "TIMESTAMP WITH TIME ZONE"), ("protocol", "SMALLINT")):
    assert types[name] == kind, (name, types[name])

assert rows("SELECT count(*) FROM weir.flows") == [(flows,)]
address, bytes_, start = rows("SELECT src_addr, bytes, start FROM weir.flows LIMIT 1")[0]
ipaddress.ip_address(address)
assert isinstance(bytes_, int) and isinstance(start, datetime.datetime), (bytes_, start)

# conditions are asked of weir, and mean what they mean in DuckDB
duck.execute("CREATE TABLE here AS FROM weir.flows")
for condition in (
    "dst_port = 443",
    "bytes > 1000 AND protocol IN (6, 17)",
    f"src_addr = '{address}'",
    f"src_addr IN ('{address}', '192.0.2.1')",
    f"src_addr <> '{address}'",
    f"src_addr > '{address}'",
    "src_addr BETWEEN '10.' AND '172.9'",
    "src_addr LIKE '10.%'",
    "application IS NULL",
    "application >= 'h'",
    f"start >= TIMESTAMPTZ '{start.isoformat()}'",
    "tcp_flags IS NOT NULL AND NOT bytes = 40",
):
    there, kept = (rows(f"SELECT count(*), sum(bytes) FROM {table} WHERE {condition}") for table in ("weir.flows", "here"))
    assert there == kept, (condition, there, kept)

# what is grouped there sends groups only
(groups,) = rows("SELECT count(*) FROM postgres_query('weir', 'SELECT dst_port, sum(bytes) AS bytes FROM flows GROUP BY dst_port')")
assert groups == rows("SELECT count(DISTINCT coalesce(dst_port, -1)) FROM here")[0], groups
sums = rows("SELECT count(*), sum(bytes) FROM weir.flows WHERE dst_port = 443")[0]
print(f"sums {sums[0]},{sums[1]}")
