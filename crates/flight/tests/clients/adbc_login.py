"""Logging in over TLS. usage: adbc_login.py PLACE AUTHORITY FLOWS"""

import sys

import adbc_driver_flightsql.dbapi as flight
from adbc_driver_flightsql import DatabaseOptions

place, authority, flows = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(authority) as file:
    roots = file.read()


def count(name, password):
    options = {"username": name, "password": password, DatabaseOptions.TLS_ROOT_CERTS.value: roots}
    with flight.connect(place, db_kwargs=options) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM flows")
        return cursor.fetchone()[0]


assert count("ann", "pencil") == flows
for name, password in [("ann", "pen"), ("bob", "pencil")]:
    try:
        count(name, password)
    except Exception as error:
        assert "not right" in str(error), error
    else:
        raise AssertionError(f"{name} is let in")
