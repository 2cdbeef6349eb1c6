"""What a program with ADBC does over the wire of Postgres. usage: adbc_postgres.py PLACE FLOWS"""

import sys

import adbc_driver_postgresql.dbapi as postgres
from adbc_driver_postgresql import StatementOptions

place, flows = sys.argv[1], int(sys.argv[2])

with postgres.connect(place) as connection, connection.cursor() as cursor:
    # by COPY, which it would take otherwise, nothing is given away
    cursor.adbc_statement.set_options(**{StatementOptions.USE_COPY.value: "false"})
    cursor.execute("SELECT bytes, src_addr FROM flows")
    assert cursor.fetch_arrow_table().num_rows == flows
    cursor.execute("SELECT count(*), sum(bytes) FROM flows WHERE dst_port = 443")
    sums = cursor.fetchone()
    print(f"sums {sums[0]},{sums[1]}")
