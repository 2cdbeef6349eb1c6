"""What a program with ADBC does over Flight SQL. usage: adbc_flight.py PLACE FLOWS"""

import sys

import adbc_driver_flightsql.dbapi as flight

place, flows = sys.argv[1], int(sys.argv[2])

with flight.connect(place) as connection, connection.cursor() as cursor:
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "weir", info
    objects = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    tables = [t for c in objects for s in c["catalog_db_schemas"] for t in s["db_schema_tables"]]
    names = {t["table_name"] for t in tables}
    assert {"flows", "exporter_books"} <= names, names
    columns = {c["column_name"] for t in tables if t["table_name"] == "flows" for c in t["table_columns"]}
    assert {"src_addr", "bytes"} <= columns, columns
    assert connection.adbc_get_table_types() == ["TABLE"]
    schema = connection.adbc_get_table_schema("flows")
    assert str(schema.field("bytes").type) == "uint64", schema

    cursor.execute("SELECT bytes, start FROM flows")
    assert cursor.fetch_arrow_table().num_rows == flows
    cursor.execute("SELECT bytes FROM flows WHERE bytes > 1000000000000000")
    empty = cursor.fetch_arrow_table()
    assert (empty.num_rows, empty.schema.names) == (0, ["bytes"]), empty.schema
    cursor.execute("SELECT count(*), sum(bytes) FROM flows WHERE dst_port = ?".replace("?", "$1"), (443,))
    sums = cursor.fetchone()
    print(f"sums {sums[0]},{sums[1]}")
    cursor.execute("SELECT count(*) FROM flows WHERE protocol = $1", ("TCP",))
    assert cursor.fetchone()[0] > 0

    for statement, word in [
        ("DELETE FROM flows", "only questions are answered"),
        ("COPY flows TO '/tmp/x'", "only questions are answered"),
        ("SELECT colum FROM flows", "no column 'colum'"),
        ("SELECT * FROM '/etc/passwd'", "no table"),
    ]:
        try:
            cursor.execute(statement)
            cursor.fetchall()
        except Exception as error:
            assert word in str(error), error
        else:
            raise AssertionError(f"{statement} is not refused")

    cursor.execute("SELECT a.bytes FROM flows a, flows b")
    cursor.fetchone()
    cursor.adbc_cancel()
    try:
        while cursor.fetchmany(100_000):
            pass
    except Exception as error:
        assert "cancel" in str(error).lower(), error
    else:
        raise AssertionError("it is not cancelled")
