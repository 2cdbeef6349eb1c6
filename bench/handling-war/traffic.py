"""The flows that all systems are asked about: hours of a day, each denser or thinner than the next.

Hour by hour `weir generate` sends the same datagrams over loopback to `weir collect` and to `nfcapd`. The flows of an
hour lie in the middle 50 minutes of it, so that files, time windows and `BETWEEN` mean the same flows: none lasts over
a minute, and none crosses a full hour. Only what both collectors kept whole is measured.
"""

import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

WEIR = os.environ.get("WEIR", "weir")
SEED = 20100628
DAY = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
DENSE_SECONDS = 3000

# The paper gives no numbers: between 7:00 and 21:00 the traffic is dense and steady, at night there is much less.
SHAPE = [40, 34, 30, 28, 28, 32, 50, 100, 130, 135, 135, 135, 135, 135, 135, 135, 130, 130, 125, 120, 110, 75, 60, 48]


def fail(text, hint):
    sys.exit(f"error: {text}\nhint: {hint}")


def output(command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options).stdout


def begin_of(hour):
    return DAY + datetime.timedelta(hours=hour)


def densities(records_a_day, hours):
    """Flows in a second of their own time, for each hour."""
    scale = records_a_day / sum(SHAPE) / DENSE_SECONDS
    return [max(1, round(SHAPE[hour % 24] * scale)) for hour in range(hours)]


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def generate(port, hour, density, rate):
    start = (begin_of(hour) + datetime.timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    output([WEIR, "generate", "--to", f"127.0.0.1:{port}", "--version", "5", "--records", density * DENSE_SECONDS,
            "--rate", rate, "--seed", SEED + hour, "--start", start, "--density", density])


def stop(process):
    process.send_signal(signal.SIGTERM)
    if process.wait(timeout=1800) != 0:
        fail(f"{process.args[0]} ended with status {process.returncode}", "see its log in the folder of the data")


def load_weir(folder, dense, rate):
    log = folder / "collect.log"
    with open(log, "w") as errors:
        process = subprocess.Popen([WEIR, "collect", "--listen", "127.0.0.1:0", "--archive", str(folder / "weir")],
                                   stderr=errors)
    for _ in range(300):
        found = re.search(r"listening on \S*:(\d+)", log.read_text())
        if found:
            break
        time.sleep(0.1)
    else:
        fail("the collector did not start", log.read_text())
    for hour, density in enumerate(dense):
        generate(int(found.group(1)), hour, density, rate)
    stop(process)


def load_nfdump(folder, dense, rate):
    for hour, density in enumerate(dense):
        where = folder / "nfdump" / f"{hour:03}"
        where.mkdir(parents=True)
        port = free_port()
        with open(folder / "nfcapd.log", "a") as log:
            # files of ten seconds of sending, some million flows each at a full rate
            process = subprocess.Popen(["nfcapd", "-w", str(where), "-p", str(port), "-b", "127.0.0.1", "-t", "10", "-y",
                                        "-B", "200000000"], stdout=log, stderr=log)
        time.sleep(1)
        generate(port, hour, density, rate)
        time.sleep(1)
        stop(process)


def files_of_hours(folder, hours):
    """A folder with links to nfcapd's files of the first hours, for `nfdump -R`."""
    slice_folder = folder / "slices" / f"{hours:03}"
    if not slice_folder.exists():
        slice_folder.mkdir(parents=True)
        for hour in range(hours):
            link_hour(folder, slice_folder, hour)
    return slice_folder


def link_hour(folder, slice_folder, hour):
    for number, path in enumerate(sorted((folder / "nfdump" / f"{hour:03}").glob("nfcapd.2*"))):
        when = begin_of(hour) + datetime.timedelta(minutes=number)
        os.link(path, slice_folder / f"nfcapd.{when.strftime('%Y%m%d%H%M')}")


def kept_by_nfdump(folder, hour):
    text = output(["nfdump", "-R", folder / "nfdump" / f"{hour:03}", "-I"])
    return sum(int(n) for n in re.findall(r"^Flows: (\d+)", text, re.M))


def kept_by_weir(folder, hours):
    """Flows by the hour that they lie in as a whole; None for those that cross a full hour."""
    sql = ('SELECT CASE WHEN CAST("start" AS bigint) / 3600000 = CAST("end" AS bigint) / 3600000 '
           'THEN CAST("start" AS bigint) / 3600000 END AS hour, count(*) AS n FROM flows GROUP BY 1')
    lines = output([WEIR, "sql", "-q", "-o", "csv", "-R", folder / "weir", sql]).splitlines()
    counts = dict(line.split(",") for line in lines if re.fullmatch(r"\d*,\d+", line))
    first = int(DAY.timestamp()) // 3600
    return [int(counts.get(str(first + hour), 0)) for hour in range(hours)], sum(map(int, counts.values()))


def load(folder, records_a_day, hours, rate, report):
    dense = densities(records_a_day, hours)
    if not (folder / "loaded").exists():
        for name in ("weir", "nfdump", "slices"):
            shutil.rmtree(folder / name, ignore_errors=True)
        for name, loader in (("weir collect", load_weir), ("nfcapd", load_nfdump)):
            began = time.monotonic()
            loader(folder, dense, rate)
            report(f"{name}: {sum(dense) * DENSE_SECONDS} flows of {hours} hours in {time.monotonic() - began:.1f} s")
    sent = [density * DENSE_SECONDS for density in dense]
    ours, in_all = kept_by_weir(folder, hours)
    theirs = [kept_by_nfdump(folder, hour) for hour in range(hours)]
    if not sent == ours == theirs or in_all != sum(sent):
        fail(f"flows of each hour differ: sent {sent}, weir {ours} (in all {in_all}), nfcapd {theirs}",
             "remove the folder and load again with a lower --rate, with which neither loses any")
    (folder / "hours.json").write_text(json.dumps(sent))
    (folder / "loaded").touch()
    report(f"flows kept by both: {sum(sent)}, by hour {sent}")
    return sent


def octets_of(folder):
    return sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*") if path.is_file())


def drop_from_page_cache(folder):
    """The files of a folder leave the page cache of the system; what is dirty is written first."""
    for path in pathlib.Path(folder).rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
