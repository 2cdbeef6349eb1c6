"""Runs one program at a time and says what it cost: time, processor time, memory, files."""

import collections
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ENVIRONMENT = dict(os.environ, TZ="UTC")

# seconds of wall clock, seconds of processor time, largest memory in MiB, most files open at a time (None: not watched),
# what was written to standard output
Cost = collections.namedtuple("Cost", "seconds cpu rss files text")


def fail(text, hint):
    sys.exit(f"error: {text}\nhint: {hint}")


def words_of(command):
    return [str(word) for word in command]


def output(command, limit_s=3600):
    """What a command prints; ends the measurement when it fails."""
    command = words_of(command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, env=ENVIRONMENT)
    except subprocess.TimeoutExpired:
        fail(f"not done after {limit_s} s: {' '.join(command)}", "a smaller archive, or more patience: --limit")
    if done.returncode != 0:
        fail(f"status {done.returncode} of: {' '.join(command)}", done.stderr.strip()[-2000:] or "no message")
    return done.stdout


def open_files(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def measured(command, limit_s, watch=False, files_max=None):
    """Runs a command to its end. `watch` looks every millisecond how many files it has open, which takes time of its
    own; `files_max` limits how many it may open at a time."""
    command = words_of(command)

    def limit():
        if files_max:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))

    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as messages:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=answer, stderr=messages, env=ENVIRONMENT, preexec_fn=limit if files_max else None)
        late = threading.Event()

        def end():
            late.set()
            process.kill()

        timer = threading.Timer(limit_s, end)
        timer.start()
        files = 0 if watch else None
        try:
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG if watch else 0)
                if pid:
                    break
                files = max(files, open_files(process.pid))
                time.sleep(0.001)
            seconds = time.monotonic() - began
        except BaseException:
            process.kill()
            os.waitpid(process.pid, 0)
            raise
        finally:
            timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            messages.seek(0)
            why = f"not done after {limit_s} s" if late.is_set() else f"status {process.returncode}"
            text = messages.read().decode(errors="replace").strip()[-2000:]
            raise Failed(f"{why}: {' '.join(command)}", text)
        answer.seek(0)
        text = answer.read().decode()
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, files, text)


class Failed(Exception):
    """A command that did not succeed: what, and its message."""


def opened(command, limit_s):
    """How often a command opens files, by strace; None without strace."""
    if shutil.which("strace") is None:
        return None
    with tempfile.NamedTemporaryFile("r") as log:
        measured(["strace", "-f", "--seccomp-bpf", "-c", "-e", "trace=openat", "-o", log.name, *command], limit_s)
        # % time, seconds, usecs/call, calls, errors when there are any, name
        found = re.search(r"^\s*\S+\s+\S+\s+\S+\s+(\d+).*\bopenat$", log.read(), re.M)
    return int(found.group(1)) if found else 0


def drop_from_page_cache(folder):
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
