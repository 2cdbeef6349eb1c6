"""The flows that all systems are asked about: hours of a day, each denser or thinner than the next.

Hour by hour `weir generate` makes the same datagrams twice: as a capture that `weir import` reads, and over loopback to
`nfcapd`, which reads no captures. Datagrams to a socket may be lost: an hour of which `nfcapd` kept less is sent again,
at half the rate. The flows of an hour are in the middle 50 minutes of it, so that files, time windows and `BETWEEN` mean
the same flows: none lasts over a minute, and none crosses a full hour. Only what both kept whole is measured.
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


def generate(hour, density, *where):
    start = (begin_of(hour) + datetime.timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    output([WEIR, "generate", "--protocol", "netflow-v5", "--records", density * DENSE_SECONDS, "--seed", SEED + hour,
            "--start", start, "--density", density, *where])


def stop(process):
    process.send_signal(signal.SIGTERM)
    if process.wait(timeout=1800) != 0:
        fail(f"{process.args[0]} ended with status {process.returncode}", "see its log in the folder of the data")


def load_weir(folder, dense, _rate, _report):
    """All hours by one import, small segments merged as a collector does in the end."""
    captures = folder / "captures"
    shutil.rmtree(captures, ignore_errors=True)
    captures.mkdir()
    for hour, density in enumerate(dense):
        generate(hour, density, "--write", captures / f"{hour:03}.pcap")
    output([WEIR, "import", "--archive", folder / "weir", *sorted(captures.iterdir())])
    shutil.rmtree(captures)
    output([WEIR, "archive", "compact", "--archive", folder / "weir"])


def queued(port):
    """Octets that wait in the kernel for the socket of a port; None when there is none."""
    for line in pathlib.Path("/proc/net/udp").read_text().splitlines()[1:]:
        cells = line.split()
        if int(cells[1].split(":")[1], 16) == port:
            return int(cells[4].split(":")[1], 16)
    return None


def wait_for(condition, what):
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.05)
    fail(f"{what}: not within a minute", "see nfcapd.log in the folder of the data")


def send_to_nfcapd(folder, where, hour, density, rate):
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    port = free_port()
    with open(folder / "nfcapd.log", "a") as log:
        # files of ten seconds of sending, some million flows each at a full rate
        process = subprocess.Popen(["nfcapd", "-w", str(where), "-p", str(port), "-b", "127.0.0.1", "-t", "10", "-y",
                                    "-B", "200000000"], stdout=log, stderr=log)
    wait_for(lambda: queued(port) is not None, "nfcapd opens its socket")
    generate(hour, density, "--to", f"127.0.0.1:{port}", "--rate", rate)
    wait_for(lambda: queued(port) == 0, "nfcapd reads what was sent")
    stop(process)


def load_nfdump(folder, dense, rate, report):
    for hour, density in enumerate(dense):
        where, hour_rate = folder / "nfdump" / f"{hour:03}", rate
        while True:
            send_to_nfcapd(folder, where, hour, density, hour_rate)
            lost = density * DENSE_SECONDS - kept_by_nfdump(folder, hour)
            if lost == 0:
                break
            report(f"nfcapd lost {lost} flows of hour {hour} at {hour_rate} flows a second; sent again at half of that")
            hour_rate //= 2
            if hour_rate < 10_000:
                fail(f"nfcapd loses flows of hour {hour} at any rate", "see nfcapd.log in the folder of the data")


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
    """Flows by the hour that they are in as a whole; None for those that cross a full hour."""
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
        for name, loader in (("weir import and compact", load_weir), ("nfcapd", load_nfdump)):
            began = time.monotonic()
            loader(folder, dense, rate, report)
            report(f"{name}: {sum(dense) * DENSE_SECONDS} flows of {hours} hours in {time.monotonic() - began:.1f} s")
    sent = [density * DENSE_SECONDS for density in dense]
    ours, in_all = kept_by_weir(folder, hours)
    theirs = [kept_by_nfdump(folder, hour) for hour in range(hours)]
    if not sent == ours == theirs or in_all != sum(sent):
        fail(f"flows of each hour differ: sent {sent}, weir {ours} (in all {in_all}), nfcapd {theirs}",
             "remove the folder and load again")
    (folder / "hours.json").write_text(json.dumps(sent))
    (folder / "loaded").touch()
    report(f"flows kept by both: {sum(sent)}, by hour {sent}")
    return sent


def kept(folder):
    """Flows of each hour, once they are loaded."""
    return json.loads((folder / "hours.json").read_text())


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


def read_into_page_cache(folder):
    """What a run that does not count would do for a program that remembers nothing."""
    for path in pathlib.Path(folder).rglob("*"):
        if path.is_file():
            with open(path, "rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass
