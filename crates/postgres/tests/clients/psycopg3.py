"""What a program with psycopg 3 does: parameters, types, server-side cursors, errors. usage: psycopg3.py PORT FLOWS"""

import datetime
import ipaddress
import sys

import psycopg

port, flows = int(sys.argv[1]), int(sys.argv[2])
place = f"host=127.0.0.1 port={port} user=ann dbname=flows"

with psycopg.connect(place) as connection:
    row = connection.execute("SELECT src_addr, bytes, start, protocol FROM flows LIMIT 1").fetchone()
    assert isinstance(row[0], (ipaddress.IPv4Address, ipaddress.IPv6Address)), row
    assert isinstance(row[1], int) and isinstance(row[3], int), row
    assert isinstance(row[2], datetime.datetime) and row[2].tzinfo is not None, row

    # an address there and back, as an object and as text
    for value in (row[0], str(row[0])):
        count = connection.execute("SELECT count(*) FROM flows WHERE src_addr = %s", (value,)).fetchone()[0]
        assert count > 0, (value, count)
    inside = connection.execute("SELECT count(*) FROM flows WHERE src_addr << '10.0.0.0/8'").fetchone()[0]
    network = ipaddress.ip_network("10.0.0.0/8")
    for test, value in (("<< %s", str(network)), ("<<= %s", network), ("<< %s::inet", str(network))):
        count = connection.execute("SELECT count(*) FROM flows WHERE src_addr " + test, (value,)).fetchone()[0]
        assert count == inside, (test, count, inside)
    named = connection.execute("SELECT count(*) FROM flows WHERE protocol = %s", ("TCP",)).fetchone()[0]
    number = connection.execute("SELECT count(*) FROM flows WHERE protocol = %s", (6,)).fetchone()[0]
    assert named == number > 0, (named, number)
    since = connection.execute("SELECT count(*) FROM flows WHERE start >= %s", (row[2],)).fetchone()[0]
    assert 0 < since <= flows, since
    ports = connection.execute("SELECT count(*) FROM flows WHERE dst_port = ANY(%s)", ([443, 53],)).fetchone()[0]
    assert ports > 0, ports
    limited = connection.execute("SELECT bytes FROM flows LIMIT %s", (7,)).fetchall()
    assert len(limited) == 7, limited

    sums = connection.execute("SELECT count(*), sum(bytes) FROM flows WHERE dst_port = %s", (443,)).fetchone()
    print(f"sums {sums[0]},{sums[1]}")

    # text and binary answers are the same
    statement = "SELECT src_addr, bytes, packets, start, tcp_flags, src_mac FROM flows ORDER BY start, bytes LIMIT 50"
    text = connection.execute(statement, binary=False).fetchall()
    binary = connection.execute(statement, binary=True).fetchall()
    assert text == binary, (text[0], binary[0])

    # prepared by the client after five times
    for _ in range(8):
        connection.execute("SELECT count(*) FROM flows WHERE bytes > %s", (100,)).fetchone()

with psycopg.connect(place) as connection, connection.cursor(name="many") as cursor:
    cursor.itersize = 500
    cursor.execute("SELECT bytes FROM flows")
    assert sum(1 for _ in cursor) == flows

with psycopg.connect(place, autocommit=True) as connection:
    try:
        connection.execute("DELETE FROM flows")
        raise AssertionError("DELETE is not refused")
    except psycopg.errors.ReadOnlySqlTransaction as error:
        assert "only questions are answered" in str(error), error
    try:
        connection.execute("SELECT colum FROM flows")
        raise AssertionError("the mistake is not found")
    except psycopg.errors.UndefinedColumn as error:
        assert error.diag.statement_position == "8" and error.diag.message_hint, error.diag
    connection.execute("SET statement_timeout = 100")
    try:
        connection.execute("SELECT count(*) FROM flows a, flows b, flows c WHERE a.bytes + b.bytes + c.bytes = 7")
        raise AssertionError("it is not stopped")
    except psycopg.errors.QueryCanceled:
        pass
