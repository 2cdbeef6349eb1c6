#!/usr/bin/env python3
"""Attacks a running `weir serve` while it collects, and says what became of it.

usage: attack.py WEIR FOLDER [--rate RECORDS_PER_SECOND] [--seconds N] [--schemathesis PROGRAM]

It starts the service on free ports of this machine, sends it flows, and meanwhile: connections that send nothing, half a head or one
octet a second; 1,000 connections at once; bodies that are too large; paths that lead out of the folder of pages; requests of pages of
other sites; statements that take for ever, several of each user; and, where schemathesis is installed, requests made from the
OpenAPI file. All the time one client asks what a page asks. At the end every record that was sent must be in the archive.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
OPENAPI = HERE.parent.parent / "crates" / "serve" / "openapi.json"
ENDLESS = "SELECT count(*) FROM flows a, flows b, flows c WHERE a.bytes + b.bytes * 3 = c.bytes + 7"
USERS = ["ann", "bob", "carl"]

PATHS = [
    "/../Cargo.toml", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/assets/../../etc/passwd",
    "/api/v1/watches/..%2f..%2fetc%2fpasswd", "/api/v1/watches/%2e%2e", "/api/v1/watches/a%00b", "/api/v1/../../etc/passwd",
    "/api/v1/flows?columns=" + "a," * 5000, "/api/v1/flows?filter=" + "(" * 2000, "/api/v1/flows?filter=" + "not%20" * 2000 + "tcp",
    "/api/v1/rank?by=" + "srcip4%2F24," * 500, "/api/v1/timeline?points=4294967296", "/api/v1/flows?limit=-1", "/api/v1/flows?offset=18446744073709551615",
    "/api/v1/flows?from=999999999999999999999", "/api/v1/series/fetch?family=..%2f..", "/api/v1/filter/complete?filter=%f0%9f&at=3",
    "/api/v1/filter/complete?filter=%C3%A4%C3%A4&at=1", "/api/v1/questions/18446744073709551616",
]


class Service:
    def __init__(self, weir, folder):
        self.weir, self.folder = weir, folder
        self.tokens = {}
        for name in USERS:
            out = subprocess.run([weir, "user", "add", name, "--role", "admin" if name == "ann" else "analyst", "--token", "--file",
                                  str(folder / "users.toml")], check=True, capture_output=True, text=True)
            self.tokens[name] = out.stdout.strip()
        (folder / "weir.toml").write_text(
            '[http]\nlisten = "127.0.0.1:0"\nheader_timeout = "2s"\nconnections_max = 600\nsign_in_failures_per_minute = 100000\n'
            '[questions]\nat_once = 2\nper_user_max = 4\nwaiting_max = 16\ntime_limit = "5s"\nmemory = "512MiB"\n'
            'user_per_minute_max = 100000\naddress_per_minute_max = 200000\n'
            '[access]\nusers_file = "users.toml"\n[audit]\nfile = "audit.jsonl"\n'
            f'[archive]\nfolder = "archive"\n[collect]\nlisten = ["127.0.0.1:0"]\nbuffer = "64MiB"\n')
        (folder / "watches").mkdir(exist_ok=True)
        self.process = subprocess.Popen([weir, "serve", str(folder / "weir.toml"), "--statistics", "--watch", str(folder / "watches")],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "WEIR_LOG": "info,weir_audit=off"})
        self.collector = self.find(self.process.stderr, r"listening on (\S+)")
        self.address = self.find(self.process.stdout, r"weir answers at http://([^/]+)/")
        self.host, self.port = self.address.rsplit(":", 1)
        self.port = int(self.port)
        self.said = []
        for stream in (self.process.stderr, self.process.stdout):
            threading.Thread(target=lambda s=stream: self.said.extend(s), daemon=True).start()

    @staticmethod
    def find(stream, pattern):
        said = []
        for line in stream:
            said.append(line)
            found = re.search(pattern, line)
            if found:
                return found.group(1)
        sys.exit("error: the service did not start\n" + "".join(said))

    def ask(self, method, path, body=None, user="ann", headers=None, timeout=30):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            sent = {"Authorization": f"Bearer {self.tokens[user]}", **(headers or {})}
            try:
                connection.request(method, path, body, sent)
            except BrokenPipeError:
                pass  # the answer comes before the end of a body that is too large
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def sql(self, statement, user="ann", **more):
        return self.ask("POST", "/api/v1/sql", json.dumps({"statement": statement}), user, {"Content-Type": "application/json"}, **more)

    def rss_mib(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) // 1024


class Attack:
    def __init__(self, service):
        self.service, self.failures, self.is_ending = service, [], threading.Event()
        self.latencies, self.rss = [], []

    def expect(self, is_it, what):
        if not is_it:
            self.failures.append(what)

    def page(self):
        """What a page asks, all the time."""
        while not self.is_ending.is_set():
            began = time.monotonic()
            try:
                status, _ = self.service.ask("GET", "/api/v1/rank?by=srcip&limit=10&from=-1m", user="bob")
                self.latencies.append((time.monotonic() - began, status))
            except OSError:
                # one of the thousand connections had its place
                self.latencies.append((time.monotonic() - began, 0))
            self.rss.append(self.service.rss_mib())
            time.sleep(0.05)

    def slow(self, count):
        """Connections that send nothing, or an octet a second; the service closes them."""
        held = []
        for number in range(count):
            try:
                stream = socket.create_connection((self.service.host, self.service.port), timeout=10)
                if number % 2:
                    stream.sendall(b"GET /api/v1/info HTTP/1.1\r\nHost: ")
                held.append(stream)
            except OSError:
                pass
        time.sleep(4)
        closed = 0
        for stream in held:
            stream.settimeout(1)
            try:
                closed += stream.recv(4096) is not None
            except OSError:
                closed += 1
            stream.close()
        self.expect(closed == len(held), f"{len(held) - closed} of {len(held)} silent connections are held for ever")

    def paths(self):
        for path in PATHS:
            status, body = self.service.ask("GET", path)
            self.expect(status < 500, f"GET {path[:60]}: {status} {body[:200]}")
            self.expect(b"root:" not in body, f"GET {path[:60]} gives a file of the system")
        status, _ = self.service.ask("POST", "/api/v1/sql", "x" * (8 << 20), headers={"Content-Type": "application/json"})
        self.expect(status == 413, f"a large body: {status}")
        status, _ = self.service.ask("POST", "/api/v1/reload", headers={"Sec-Fetch-Site": "cross-site"})
        self.expect(status == 403, f"a page of another site reloads: {status}")
        status, _ = self.service.ask("POST", "/api/v1/reload", headers={"Origin": "http://evil.example"})
        self.expect(status == 403, f"a page of another origin reloads: {status}")

    def bombs(self):
        """Statements that take for ever: as many of each user as may be, and more."""
        def one(user):
            try:
                status, _ = self.service.sql(ENDLESS, user, timeout=60)
            except OSError:
                status = 0
            self.expect(status in (0, 409, 429, 503, 504), f"an endless statement: {status}")
        threads = [threading.Thread(target=one, args=(user,)) for user in ("ann", "carl") for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]

    def made_up(self, program, seconds):
        """Requests that schemathesis makes from the description."""
        described = json.loads(OPENAPI.read_text())
        # what would end the attack, or has no end
        for path in ("/live",):
            described["paths"].pop(path, None)
        described["servers"] = [{"url": f"http://{self.service.address}/api/v1"}]
        path = self.service.folder / "openapi.json"
        path.write_text(json.dumps(described))
        command = [program, "run", str(path), "--url", f"http://{self.service.address}/api/v1", "--phases", "examples,coverage,fuzzing",
                   "-H", f"Authorization: Bearer {self.service.tokens['ann']}", "--checks", "not_a_server_error,response_schema_conformance,content_type_conformance",
                   "--max-examples", "30", "--request-timeout", "20", "--suppress-health-check", "all", "--workers", "2", "--no-color", "--seed", "1"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
            (self.service.folder / "schemathesis.txt").write_text(done.stdout + done.stderr)
            self.expect(done.returncode == 0, f"schemathesis found something: {self.service.folder / 'schemathesis.txt'}")
        except subprocess.TimeoutExpired as error:
            (self.service.folder / "schemathesis.txt").write_text((error.stdout or b"").decode(errors="replace"))
            print("schemathesis was ended after its time", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("weir")
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--rate", type=int, default=50_000)
    arguments.add_argument("--seconds", type=int, default=40)
    arguments.add_argument("--schemathesis")
    given = arguments.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    service = Service(given.weir, given.folder)
    attack = Attack(service)
    records = given.rate * given.seconds
    sending = subprocess.Popen([given.weir, "generate", "--to", service.collector, "--records", str(records), "--rate", str(given.rate)],
                               stdout=subprocess.DEVNULL)
    asking = threading.Thread(target=attack.page)
    asking.start()
    attack.paths()
    attack.slow(200)
    attack.slow(1000)
    attack.bombs()
    if given.schemathesis:
        attack.made_up(given.schemathesis, 300)
    while sending.poll() is None:
        attack.bombs()
    for _ in range(600):
        status, body = service.ask("GET", "/api/v1/info")
        if status == 200 and json.loads(body)["archive"]["flows"] >= records:
            break
        time.sleep(0.1)
    attack.is_ending.set()
    asking.join()
    service.process.send_signal(signal.SIGTERM)
    code = service.process.wait(timeout=60)
    attack.expect(code == 0, f"the service ended with {code}")
    attack.expect(not any("panicked" in line for line in service.said), "something panicked")
    out = subprocess.run([given.weir, "sql", "-R", str(given.folder / "archive"), "--format", "json",
                          "SELECT (SELECT count(*) FROM flows) AS stored, sum(kernel_drops) + sum(queue_drops) AS dropped, sum(records_lost) AS lost FROM exporter_books"],
                         check=True, capture_output=True, text=True)
    books = json.loads(out.stdout)[0]
    attack.expect(int(books["stored"]) == records, f"{records} records were sent, {books['stored']} are stored")
    answered = sorted(seconds for seconds, status in attack.latencies if status == 200)
    if answered:
        at = lambda part: answered[min(len(answered) - 1, int(len(answered) * part))] * 1000
        print(f"page: {len(answered)} of {len(attack.latencies)} answered, median {at(0.5):.0f} ms, 99th {at(0.99):.0f} ms")
    print(f"collected: {books['stored']} of {records} records at {given.rate}/s, dropped {books['dropped']}, lost {books['lost']}")
    print(f"memory: at most {max(attack.rss, default=0)} MiB")
    for failure in attack.failures:
        print(f"FAILED: {failure}")
    sys.exit(1 if attack.failures else 0)


if __name__ == "__main__":
    main()
