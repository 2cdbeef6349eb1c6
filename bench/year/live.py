"""A collector at work on an archive that has a year already: idle, and fed at a steady rate."""

import os
import re
import signal
import subprocess
import time

from process import ENVIRONMENT, Failed, fail, measured, open_files, output

TICKS = os.sysconf("SC_CLK_TCK")


def linked_copy(archive, copy):
    """A copy that shares the files of segments, which are never written to again; everything else is its own."""
    copy.mkdir()
    for path in sorted(archive.rglob("*")):
        target = copy / path.relative_to(archive)
        if path.is_dir():
            target.mkdir()
        elif path.suffix == ".parquet":
            os.link(path, target)
        else:
            target.write_bytes(path.read_bytes())
    return copy


def cpu_s(pid):
    """Seconds of processor time so far, user and system."""
    with open(f"/proc/{pid}/stat") as file:
        cells = file.read().rsplit(")", 1)[1].split()
    return (int(cells[11]) + int(cells[12])) / TICKS


def threads_s(pid):
    """Seconds of processor time so far of each thread, by name."""
    times = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/comm") as name, open(f"/proc/{pid}/task/{task}/schedstat") as file:
                key = name.read().strip()
                times[key] = times.get(key, 0) + int(file.read().split()[0]) / 1e9
        except OSError:
            continue  # it has ended
    return times


def memory_mib(pid, field):
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(rf"^{field}:\s+(\d+)", file.read(), re.M).group(1)) / 1024


class Collector:
    def __init__(self, weir, archive, log, words=()):
        self.began = time.monotonic()
        self.log = log
        with open(log, "w") as errors:
            command = [weir, "collect", "--listen", "127.0.0.1:0", "-R", archive, *words]
            self.process = subprocess.Popen([str(word) for word in command], stderr=errors, env=ENVIRONMENT)
        self.pid = self.process.pid
        self.port = self.wait_for_port()
        self.start_s = time.monotonic() - self.began

    def wait_for_port(self):
        while time.monotonic() - self.began < 120:
            found = re.search(r"listening on \S*:(\d+)", self.log.read_text())
            if found:
                return int(found.group(1))
            if self.process.poll() is not None:
                fail("the collector ended", self.log.read_text()[-2000:])
            time.sleep(0.005)
        self.kill()
        fail("the collector did not listen within 120 s", self.log.read_text()[-2000:])

    def idle(self, seconds):
        """Processor time over some seconds in which nothing comes, and the threads that used most of it."""
        before, threads = cpu_s(self.pid), threads_s(self.pid)
        time.sleep(seconds)
        used = {name: time_s - threads.get(name, 0) for name, time_s in threads_s(self.pid).items()}
        most = sorted(used.items(), key=lambda item: -item[1])[:3]
        return cpu_s(self.pid) - before, ", ".join(f"{name} {time_s:.2f}" for name, time_s in most if time_s >= 0.005)

    def stop(self):
        """Seconds from SIGTERM to the end."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            if self.process.wait(timeout=600) != 0:
                fail(f"the collector ended with status {self.process.returncode}", self.log.read_text()[-2000:])
        except subprocess.TimeoutExpired:
            fail("the collector did not end within 600 s of SIGTERM", self.log.read_text()[-2000:])
        return time.monotonic() - began

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def idle(weir, archive, log, seconds, words, report, name):
    collector = Collector(weir, archive, log, words)
    try:
        time.sleep(3)
        cpu, threads = collector.idle(seconds)
        report(f"collect{' '.join(['', *words])} on {name}, idle: listening after {collector.start_s:.2f} s; {cpu:.2f} s of "
               f"processor time in {seconds} s ({threads or 'no thread 5 ms'}), {memory_mib(collector.pid, 'VmRSS'):.0f} MiB, "
               f"{open_files(collector.pid)} files open; ended {collector.stop():.2f} s after SIGTERM")
    finally:
        collector.kill()


def fed(weir, archive, log, options, question, report, name):
    """Sends at a steady rate, and asks a question beside it every few seconds."""
    collector = Collector(weir, archive, log)
    sender, taken = None, []
    try:
        before = cpu_s(collector.pid)
        command = [weir, "generate", "--to", f"127.0.0.1:{collector.port}", "--protocol", "netflow-v5", "--seed", "2",
                   "--records", options.live_rate * options.live_seconds, "--rate", options.live_rate]
        sender = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        began, files = time.monotonic(), 0
        while sender.poll() is None:
            if time.monotonic() - began > 4 * options.live_seconds + 60:
                fail("the sender does not end", "a smaller --live-rate")
            taken.append(measured(question.ask(archive), options.limit).seconds)
            files = max(files, open_files(collector.pid))
            time.sleep(2)
        lasted = time.monotonic() - began
        sent = int(re.search(r"([0-9]+) records", sender.stdout.read()).group(1))
        cpu, rss = cpu_s(collector.pid) - before, memory_mib(collector.pid, "VmHWM")
        stopped = collector.stop()
    finally:
        collector.kill()
        if sender and sender.poll() is None:
            sender.kill()
            sender.wait()
    today = "received >= TIMESTAMP '2026-06-01T00:00:00Z'"
    stored = int(output([weir, "sql", "-q", "-R", archive, "-o", "csv", f"SELECT count(*) AS n FROM flows WHERE {today}"],
                        options.limit).split()[-1])
    taken.sort()
    report(f"collect on {name}, {options.live_rate} records/s for {lasted:.0f} s: sent {sent}, stored {stored}, {cpu:.1f} s of "
           f"processor time, {rss:.0f} MiB at most, {files} files open at most; sealed {stopped:.2f} s after SIGTERM")
    if taken:
        report(f"  meanwhile '{question.name}': median {taken[len(taken) // 2]:.3f} s, longest {taken[-1]:.3f} s of {len(taken)}")
    if stored != sent:
        report(f"  WRONG: {sent - stored} flows are missing")
