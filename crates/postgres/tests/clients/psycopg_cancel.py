"""A program that cancels with psycopg or psycopg2. It prints what it has done, and waits for a line before it goes on.

usage: psycopg_cancel.py MODULE PORT FLOWS
"""

import importlib
import sys
import threading

module, port, flows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
driver, errors = importlib.import_module(module), importlib.import_module(f"{module}.errors")


def say(word):
    print(word, flush=True)
    sys.stdin.readline()


def ask_and_cancel(connection, statement):
    """`statement` takes longer than anybody waits."""
    say("ready")
    ended = threading.Event()

    def cancel():
        sys.stdin.readline()
        connection.cancel()
        # a request that comes too early finds nothing
        while not ended.wait(0.1):
            connection.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    cursor = connection.cursor()
    try:
        cursor.execute(statement)
        raise AssertionError("it is not cancelled")
    except errors.QueryCanceled as error:
        # the limit of its time would end it with the same code
        assert "at the request of its user" in str(error), error
    finally:
        ended.set()
        thread.join()
    # neither the cursor nor the connection is closed yet
    say("cancelled")


connection = driver.connect(f"host=127.0.0.1 port={port} user=ann dbname=flows")
connection.autocommit = True
# before the first row, and while rows come
ask_and_cancel(connection, "SELECT count(*) FROM flows a, flows b, flows c WHERE a.bytes + b.bytes + c.bytes = 7")
ask_and_cancel(connection, "SELECT a.bytes FROM flows a, flows b")
cursor = connection.cursor()
cursor.execute("SELECT count(*) FROM flows")
assert cursor.fetchone()[0] == flows
say("answered")
connection.close()
