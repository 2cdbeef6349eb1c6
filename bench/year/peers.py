"""nfdump and DuckDB over the same flows, where they are installed."""

import json
import re
import shutil
import subprocess

from process import ENVIRONMENT, Failed, measured, output
from truth import window

# statements come as JSON lines; answers are rows and the seconds that the engine took
DUCK = """
import json, sys, time, duckdb
connection = duckdb.connect()
connection.execute("SET TimeZone = 'UTC'")
connection.execute("SET enable_progress_bar = false")
for line in sys.stdin:
    began = time.monotonic()
    rows = connection.execute(json.loads(line)).fetchall()
    print(json.dumps([time.monotonic() - began, [[str(cell) for cell in row] for row in rows]]), flush=True)
"""


def median(values):
    return sorted(values)[len(values) // 2]


def blob(address):
    return "'" + "".join(f"\\x{int(part):02X}" for part in address.split(".")) + "'::BLOB"


def dotted(hexadecimal):
    return ".".join(str(octet) for octet in bytes.fromhex(hexadecimal))


def duckdb(python, archive, truth, options, report, name):
    """The same files, found by their folders of days: DuckDB has no other way to them."""
    found = subprocess.run([python, "-c", "import duckdb; print(duckdb.__version__)"], capture_output=True, text=True)
    if found.returncode != 0:
        return report("DuckDB: not measured, for there is no module duckdb (pip install duckdb; --duckdb-python)")
    day, month = truth.middle(), truth.around(truth.middle(), 30)

    def files(days):
        folders = ", ".join(f"'{archive}/flows/date={day.date}/*.parquet'" for day in days)
        return f"read_parquet([{folders}])"

    everything = f"read_parquet('{archive}/flows/*/*.parquet')"
    host = f"(src_addr = {blob(truth.host)} OR dst_addr = {blob(truth.host)})"
    top = "SELECT hex(src_addr), sum(bytes) FROM {} GROUP BY 1 ORDER BY 2 DESC LIMIT 10"
    asked = [
        ("one host on one day", f"SELECT count(*), sum(bytes) FROM {files([day])} WHERE {host}"),
        ("one host, any time", f"SELECT count(*), sum(bytes) FROM {everything} WHERE {host}"),
        (f"top 10 sources of {len(month)} days", top.format(files(month))),
        ("top 10 sources of all", top.format(everything)),
        ("SQL, flows and bytes by day",
         f"SELECT epoch_ms(received) // 86400000, count(*), sum(bytes) FROM {everything} GROUP BY 1 ORDER BY 1"),
    ]
    report(f"DuckDB {found.stdout.strip()} on the Parquet files of {name}: seconds of its engine, median of {options.peer_rounds}")
    process = subprocess.Popen([python, "-c", DUCK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    answers = {}
    try:
        for question, statement in asked:
            taken = []
            for _ in range(options.peer_rounds):
                process.stdin.write(json.dumps(statement) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
                if not line:
                    report(f"  {question}: DuckDB ended without an answer")
                    break
                seconds, answers[question] = json.loads(line)
                taken.append(seconds)
                if seconds > options.limit:
                    break
            if process.poll() is not None or not taken:
                break
            report(f"  {question:<34} {median(taken):>9.3f}")
    finally:
        process.kill()
        process.wait()
    return {name: [[dotted(address), bytes_] for address, bytes_ in rows] for name, rows in answers.items() if name.startswith("top")}


def nfdump(weir, archive, truth, options, folder, report):
    """One nfcapd file for each of some days, written by `weir nfdump -w`, compressed with LZ4."""
    if shutil.which("nfdump") is None:
        return report("nfdump: not measured, for it is not installed (apt-get install nfdump)")
    day, month = truth.middle(), truth.around(truth.middle(), options.peer_days)
    files = folder / "nfcapd"
    files.mkdir()
    version = output(["nfdump", "-V"]).strip()
    for one in month:
        begin, end = (f"{one.date.replace('-', '/')}.{clock}" for clock in ("00:00:00", "23:59:59"))
        name = files / f"nfcapd.{one.date.replace('-', '')}0000"
        # to the end of the last second: no flow is longer than its day
        output([weir, "nfdump", "-R", archive, "-t", f"{begin}-{next_midnight(end)}", "-y", "-w", name], options.limit)
        kept = int(re.search(r"^Flows: (\d+)", output(["nfdump", "-r", name, "-I"]), re.M).group(1))
        if kept != one.flows:
            return report(f"nfdump: not measured, for {name.name} has {kept} flows rather than {one.flows}")
    octets = sum(path.stat().st_size for path in files.iterdir())
    report(f"{version} over {len(month)} files of a day each, {octets / sum(day.flows for day in month):.1f} octets a flow; "
           f"seconds, median of {options.peer_rounds}")
    one = files / f"nfcapd.{day.date.replace('-', '')}0000"
    asked = [
        ("one host on one day", ["-r", one, "-o", "csv", f"ip {truth.host}"]),
        (f"one host on {len(month)} days", ["-R", files, "-o", "csv", f"ip {truth.host}"]),
        ("top 10 sources of the day", ["-r", one, "-s", "srcip/bytes", "-n", "10"]),
        (f"top 10 sources of {len(month)} days", ["-R", files, "-s", "srcip/bytes", "-n", "10"]),
    ]
    for question, words in asked:
        try:
            taken = [measured(["nfdump", "-q", *words], options.limit).seconds for _ in range(options.peer_rounds)]
        except Failed as failed:
            report(f"  {question}: {failed.args[0]}: {failed.args[1]}")
            continue
        report(f"  {question:<34} {median(taken):>9.3f}")
    shutil.rmtree(files)
    return None


def next_midnight(end):
    import datetime
    moment = datetime.datetime.strptime(end, "%Y/%m/%d.%H:%M:%S") + datetime.timedelta(seconds=1)
    return moment.strftime("%Y/%m/%d.%H:%M:%S")
