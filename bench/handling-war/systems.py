"""The systems that are asked: what each is asked, how long it takes, and its answer in one form.

A system has `timed(case, hours)`, seconds of a whole question; `rows(case, hours)`, the answer row by row in one form
for all; `cool()`, which makes it forget what it has read; `warm(case, hours)`, which makes it remember, and says how
long that took when it took asking; `size()`, its octets on disk; `question(case, hours)` and `version()`, for reports.

Hours are the first ones of the data, asked for by their times (nfdump: by its files). `None` is everything, and then
no question names a time.
"""

import atexit
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import time

import traffic
from traffic import WEIR, fail, output

# the paper's four case studies, in the order of its figures
CASES = {
    "list": "Listing",
    "filter": "Listing + Filtering",
    "group-source": "Grouping + Filtering 1",
    "group-tuple": "Grouping + Filtering 2",
}
# what the paper did not ask: one host on either side, and rankings of everything
MORE_CASES = {
    "host": "One host, either side",
    "top-sources": "Top 10 sources",
    "top-tuples": "Top 10 five-tuples",
}
SEVEN = ["filter", "group-source", "group-tuple", "top-sources", "top-tuples", "host", "list"]
TITLES = CASES | MORE_CASES
# cases whose rows are a source and its octets, or a five-tuple and its octets; those of the others are flows
OF_SOURCES = ("group-source", "top-sources")
OF_TUPLES = ("group-tuple", "top-tuples")
TOP = 10
PROTOCOLS = {"TCP": "6", "UDP": "17", "ICMP": "1", "ICMP6": "58", "GRE": "47", "ESP": "50"}
PORT = 22


def ms(hour):
    return int(traffic.begin_of(hour).timestamp() * 1000)


def busy_host(folder):
    """The 200th host by flows: some of a thousand flows are its own. Found once for all systems and runs."""
    kept = folder / "host"
    if not kept.exists():
        command = [WEIR, "query", "-q", "-o", "csv", "-R", folder / "weir", "-s", "ip/flows", "-n", "200"]
        kept.write_text(output(command).splitlines()[-1].split(",")[0])
    return kept.read_text()


def timed(command, **options):
    began = time.monotonic()
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, **options)
    return time.monotonic() - began


def lines_of(command, **options):
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True, **options)
    yield from process.stdout
    if process.wait() != 0:
        fail(f"{command[0]} ended with status {process.returncode}", "see its message above")


def port_of(text):
    # nfdump prints the port of ICMP as type.code
    whole, _, rest = text.partition(".")
    return str(int(whole) * 256 + int(rest)) if rest else whole


def dotted(number):
    return ".".join(str(int(number) >> shift & 255) for shift in (24, 16, 8, 0))


class Weir:
    name = "weir"
    environment = dict(os.environ, TZ="UTC")

    def __init__(self, folder):
        self.folder = folder / "weir"

    def version(self):
        return output([WEIR, "--version"]).strip()

    def question(self, case, hours):
        return shlex.join(map(str, self.command(case, hours)))

    def window(self, hours):
        if hours is None:
            return []
        form = "%Y/%m/%d.%H:%M:%S"
        return ["-t", f"{traffic.DAY.strftime(form)}-{traffic.begin_of(hours).strftime(form)}"]

    def command(self, case, hours):
        words = {
            "list": [],
            "filter": [f"dst port {PORT}"],
            "group-source": ["-A", "srcip", f"dst port {PORT}"],
            "group-tuple": ["-A", "srcip,srcport,dstip,dstport,proto", f"dst port {PORT}"],
            "host": [f"ip {busy_host(self.folder.parent)}"],
            "top-sources": ["-s", "srcip/bytes", "-n", TOP],
            "top-tuples": ["-s", "record/bytes", "-n", TOP],
        }[case]
        return [WEIR, "query", "-R", self.folder, "-o", "csv", *self.window(hours), *words]

    def timed(self, case, hours):
        return self.timed_command(self.command(case, hours))

    def timed_command(self, command):
        return timed([*command, "-q"], env=self.environment)

    def rows(self, case, hours):
        return self.rows_of(self.command(case, hours), case)

    def rows_of(self, command, case):
        """The answer to a command whose columns are those of a case."""
        lines = lines_of(command, env=self.environment, stderr=subprocess.DEVNULL)
        at = {name: place for place, name in enumerate(next(lines).strip().split(","))}
        names = ["start", "end", "protocol", "src_addr", "src_port", "dst_addr", "dst_port", "packets", "bytes"]
        if case in OF_SOURCES:
            names = ["src_addr", "bytes"]
        elif case in OF_TUPLES:
            names = ["protocol", "src_addr", "src_port", "dst_addr", "dst_port", "bytes"]
        places = [at[name] for name in names]
        for line in lines:
            cells = line.rstrip("\n").split(",")
            row = [cells[place] for place in places]
            if names[0] == "start":
                row[:2] = [text.replace("T", " ").rstrip("Z") for text in row[:2]]
            yield tuple(row)

    def cool(self):
        traffic.drop_from_page_cache(self.folder)

    def warm(self, _case, _hours):
        traffic.read_into_page_cache(self.folder)

    def size(self):
        return traffic.octets_of(self.folder)

    def close(self):
        pass


class Nfdump:
    name = "nfdump"
    environment = dict(os.environ, TZ="UTC")
    list_format = "fmt:%ts,%te,%pr,%sa,%sp,%da,%dp,%pkt,%byt"

    def __init__(self, folder):
        self.folder = folder

    def version(self):
        return output(["nfdump", "-V"]).strip()

    def question(self, case, hours):
        return shlex.join(map(str, self.command(case, hours)))

    def command(self, case, hours):
        words = {
            "list": ["-o", self.list_format],
            "filter": ["-o", self.list_format, f"dst port {PORT}"],
            "group-source": ["-A", "srcip", "-o", "fmt:%sa,%byt", f"dst port {PORT}"],
            "group-tuple": ["-A", "srcip,srcport,dstip,dstport,proto", "-o", "fmt:%pr,%sa,%sp,%da,%dp,%byt",
                            f"dst port {PORT}"],
            "host": ["-o", self.list_format, f"ip {busy_host(self.folder)}"],
            "top-sources": ["-s", "srcip/bytes", "-n", TOP, "-o", "csv"],
            "top-tuples": ["-s", "record/bytes", "-n", TOP, "-o", "fmt:%pr,%sa,%sp,%da,%dp,%byt"],
        }[case]
        # -q leaves out header and summary, -N prints plain numbers
        return ["nfdump", "-q", "-N", "-R", self.files(hours), *words]

    def files(self, hours):
        return traffic.files_of_hours(self.folder, len(traffic.kept(self.folder)) if hours is None else hours)

    def timed(self, case, hours):
        return self.timed_command(self.command(case, hours))

    def timed_command(self, command):
        return timed(command, env=self.environment)

    def rows(self, case, hours):
        return self.rows_of(self.command(case, hours), case)

    def rows_of(self, command, case):
        if case == "top-sources":
            yield from self.ranked(command)
            return
        width = 2 if case in OF_SOURCES else 6 if case in OF_TUPLES else 9
        for line in lines_of(command, env=self.environment):
            cells = [cell.strip() for cell in line.split(",")]
            if len(cells) != width:
                continue
            if width > 2:
                first = 2 if width == 9 else 0
                cells[first] = PROTOCOLS.get(cells[first].upper(), cells[first])
                cells[first + 2], cells[first + 4] = port_of(cells[first + 2]), port_of(cells[first + 4])
            yield tuple(cells)

    def ranked(self, command):
        """A ranking has columns of its own, named in the line before it."""
        names = None
        for line in lines_of(command, env=self.environment):
            cells = line.strip().split(",")
            if names and len(cells) == len(names):
                row = dict(zip(names, cells))
                yield row["val"], row["byt"]
            elif "val" in cells:
                names = cells

    def cool(self):
        traffic.drop_from_page_cache(self.folder / "nfdump")

    def warm(self, _case, hours):
        traffic.read_into_page_cache(self.files(hours))

    def size(self):
        return traffic.octets_of(self.folder / "nfdump")

    def close(self):
        pass


class MariaDb:
    """One server, asked in one of three ways: as it likes, forced to use the index of time, forced to use none."""

    server = None
    indexes = {
        "start_time": "start_time", "tuple5": "ipv4_src, port_src, ipv4_dst, port_dst, protocol",
        "packets": "packets", "octets": "octets", "duration": "duration",
    }

    def __init__(self, folder, variant, pool, limit_seconds):
        self.folder, self.variant, self.pool, self.limit_seconds = folder / "mariadb", variant, pool, limit_seconds
        self.name = {"": "MariaDB", "force": "MariaDB w/ index", "ignore": "MariaDB w/o indexes"}[variant]
        self.source = folder / "weir"
        self.start()
        if not (self.folder / "filled").exists():
            self.fill()

    def version(self):
        return output(["mariadbd", "--version"]).strip()

    def question(self, case, hours):
        return self.sql(case, hours)

    def user(self):
        return ["--user=root"] if os.geteuid() == 0 else []

    def start(self):
        if MariaDb.server is not None:
            return
        os.environ["PATH"] += os.pathsep + "/usr/sbin"
        for program in ("mariadbd", "mariadb-install-db", "mariadb"):
            if shutil.which(program) is None:
                fail(f"no {program}", "as root: apt-get install mariadb-server, or .ci/packages bench")
        data = self.folder / "data"
        if not data.exists():
            self.folder.mkdir(exist_ok=True)
            output(["mariadb-install-db", "--no-defaults", *self.user(), f"--datadir={data}",
                    "--auth-root-authentication-method=normal", "--skip-test-db"])
        log = open(self.folder / "server.log", "a")
        MariaDb.server = subprocess.Popen(
            ["mariadbd", "--no-defaults", *self.user(), f"--datadir={data}", f"--socket={self.socket()}",
             "--skip-networking", f"--innodb-buffer-pool-size={self.pool}", "--skip-log-bin", "--local-infile=1",
             "--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=512M", "--innodb-stats-persistent=1",
             "--innodb-buffer-pool-dump-at-shutdown=0", "--innodb-buffer-pool-load-at-startup=0"],
            stdout=log, stderr=log)
        atexit.register(self.close)
        for _ in range(600):
            if subprocess.run(self.client("SELECT 1"), capture_output=True).returncode == 0:
                return
            time.sleep(0.1)
        fail("MariaDB did not start", f"see {self.folder / 'server.log'}")

    def socket(self):
        # a socket's path must be short
        return f"/tmp/weir-war-{os.getpid()}.sock"

    def client(self, sql):
        return ["mariadb", "--no-defaults", f"--socket={self.socket()}", "-u", "root", "--local-infile=1", "--quick",
                "--batch", "--skip-column-names", "-e", sql]

    def fill(self):
        """The paper's table, filled in the order of start times, then its indexes."""
        began = time.monotonic()
        output(self.client(
            "DROP DATABASE IF EXISTS war; CREATE DATABASE war; CREATE TABLE war.flows (flowid BIGINT UNSIGNED AUTO_INCREMENT "
            "PRIMARY KEY, start_time BIGINT UNSIGNED NOT NULL, end_time BIGINT UNSIGNED NOT NULL, duration INT UNSIGNED NOT "
            "NULL, ipv4_src INT UNSIGNED NOT NULL, port_src SMALLINT UNSIGNED NOT NULL, ipv4_dst INT UNSIGNED NOT NULL, "
            "port_dst SMALLINT UNSIGNED NOT NULL, protocol TINYINT UNSIGNED NOT NULL, tos TINYINT UNSIGNED NOT NULL, "
            "packets BIGINT UNSIGNED NOT NULL, octets BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB"))
        file = self.folder / "hour.csv"
        counted = traffic.kept(self.folder.parent)
        for hour in range(len(counted)):
            sql = ('SELECT CAST("start" AS bigint) AS a, CAST("end" AS bigint) AS b, CAST("end" AS bigint) - CAST("start" AS bigint) AS c, '
                   "host(src_addr), src_port, host(dst_addr), dst_port, protocol, tos, packets, bytes FROM flows WHERE "
                   f'CAST("start" AS bigint) BETWEEN {ms(hour)} AND {ms(hour + 1) - 1} ORDER BY "start"')
            with open(file, "w") as rows:
                subprocess.run([WEIR, "sql", "-q", "-o", "csv", "-R", str(self.source), sql], check=True, stdout=rows)
            output(self.client(
                f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE war.flows FIELDS TERMINATED BY ',' IGNORE 1 LINES (start_time, end_time, "
                "duration, @src, port_src, @dst, port_dst, protocol, tos, packets, octets) "
                "SET ipv4_src = INET_ATON(@src), ipv4_dst = INET_ATON(@dst)"))
        file.unlink()
        loaded = time.monotonic() - began
        keys = ", ".join(f"ADD INDEX {name} ({columns})" for name, columns in self.indexes.items())
        output(self.client(f"ALTER TABLE war.flows {keys}; ANALYZE TABLE war.flows"))
        kept = int(output(self.client("SELECT count(*) FROM war.flows")))
        if kept != sum(counted):
            fail(f"MariaDB kept {kept} of {sum(counted)} flows", "see the warnings of LOAD DATA")
        print(f"MariaDB: {kept} flows loaded in {loaded:.1f} s, indexes {time.monotonic() - began - loaded:.1f} s")
        (self.folder / "filled").touch()

    def sql(self, case, hours):
        hint = {"": "", "force": "FORCE INDEX (start_time)", "ignore": f"IGNORE INDEX ({', '.join(self.indexes)})"}[self.variant]
        within = "TRUE" if hours is None else f"start_time BETWEEN {ms(0)} AND {ms(hours) - 1}"
        where = f"FROM war.flows {hint} WHERE {within}"
        five = "ipv4_src, port_src, ipv4_dst, port_dst, protocol"
        host = f"INET_ATON('{busy_host(self.folder.parent)}')"
        top = f"ORDER BY SUM(octets) DESC LIMIT {TOP}"
        return {
            "list": f"SELECT * {where}",
            "filter": f"SELECT * {where} AND port_dst = {PORT}",
            "group-source": f"SELECT ipv4_src, SUM(octets) {where} AND port_dst = {PORT} GROUP BY ipv4_src",
            "group-tuple": f"SELECT {five}, SUM(octets) {where} AND port_dst = {PORT} GROUP BY {five}",
            "host": f"SELECT * {where} AND (ipv4_src = {host} OR ipv4_dst = {host})",
            "top-sources": f"SELECT ipv4_src, SUM(octets) {where} GROUP BY ipv4_src {top}",
            "top-tuples": f"SELECT {five}, SUM(octets) {where} GROUP BY {five} {top}",
        }[case]

    def timed(self, case, hours):
        """Seconds of a question, or of the time after which it was cancelled, which the report then says."""
        began = time.monotonic()
        limited = f"SET STATEMENT max_statement_time = {self.limit_seconds} FOR {self.sql(case, hours)}"
        ended = subprocess.run(self.client(limited), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        seconds = time.monotonic() - began
        if ended.returncode != 0:
            if seconds < self.limit_seconds:
                fail(f"{self.name}: {ended.stderr.strip()}", f"see {self.folder / 'server.log'}")
            print(f"{self.name}: '{TITLES[case]}' of {hours or 'all'} hours cancelled after {seconds:.0f} s", flush=True)
        return seconds

    def rows(self, case, hours):
        for line in lines_of(self.client(self.sql(case, hours))):
            cells = line.rstrip("\n").split("\t")
            if case in OF_SOURCES:
                yield dotted(cells[0]), cells[1]
            elif case in OF_TUPLES:
                source, source_port, target, target_port, protocol, octets = cells
                yield protocol, dotted(source), source_port, dotted(target), target_port, octets
            else:
                _, start, end, _, source, source_port, target, target_port, protocol, _, packets, octets = cells
                yield (clock(start), clock(end), protocol, dotted(source), source_port, dotted(target), target_port, packets,
                       octets)

    def cool(self):
        self.close()
        traffic.drop_from_page_cache(self.folder)
        self.start()

    def warm(self, case, hours):
        return self.timed(case, hours)

    def size(self):
        return traffic.octets_of(self.folder / "data" / "war")

    def close(self):
        if MariaDb.server is not None:
            MariaDb.server.terminate()
            MariaDb.server.wait(timeout=600)
            MariaDb.server = None


def clock(text):
    seconds, thousandths = divmod(int(text), 1000)
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds)) + f".{thousandths:03}"


class DuckDb:
    """DuckDB, on weir's own Parquet files or on its own format loaded in the same order.

    The engine runs in a helper process, and reports itself how long a question took: the start of Python is not counted.
    """

    columns = '"start", "end", protocol, src_addr, src_port, dst_addr, dst_port, tcp_flags, packets, bytes'

    def __init__(self, folder, own, python):
        self.archive, self.own, self.python = folder / "weir", own, python
        self.name = "DuckDB" if own else "DuckDB on Parquet"
        self.file = folder / "duckdb" / "flows.duckdb"
        self.helper = None
        if own and not self.file.exists():
            self.file.parent.mkdir(exist_ok=True)
            number = "('0x' || hex({0}))::UINTEGER AS {0}"
            picked = ", ".join(number.format(c.strip()) if c.strip().endswith("_addr") else c for c in self.columns.split(","))
            # row by row in the order of weir's files
            seconds = self.ask("SET preserve_insertion_order = true; "
                               f"CREATE TABLE flows AS SELECT {picked} FROM {self.parquet()}; CHECKPOINT")
            self.close()
            print(f"DuckDB: loaded in {seconds:.1f} s")

    def version(self):
        return "DuckDB " + output([self.python, "-c", "import duckdb; print(duckdb.__version__)"]).strip()

    def question(self, case, hours):
        return self.select(case, self.where(case, hours))

    def parquet(self):
        return f"read_parquet('{self.archive}/flows/**/*.parquet', hive_partitioning = false, union_by_name = true)"

    def ask(self, sql):
        if self.helper is None:
            program = pathlib.Path(__file__).with_name("duck.py")
            self.helper = subprocess.Popen([self.python, program, self.file if self.own else ":memory:"],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        print(json.dumps(sql), file=self.helper.stdin, flush=True)
        answer = self.helper.stdout.readline()
        if not answer:
            fail("the helper of DuckDB ended", "pip install duckdb, and name that Python by --duckdb-python")
        return json.loads(answer)

    def source(self):
        return "flows" if self.own else self.parquet()

    def address(self, name, as_text):
        """An address in an answer: as it is kept, or as text."""
        if not as_text:
            return name
        number = name if self.own else f"('0x' || hex({name}))::UINTEGER"
        return "concat_ws('.', " + ", ".join(f"{number} >> {shift} & 255" for shift in (24, 16, 8, 0)) + f") AS {name}"

    def literal(self, dotted_text):
        """An address in a question."""
        octets = [int(part) for part in dotted_text.split(".")]
        if self.own:
            return str(int.from_bytes(bytes(octets), "big"))
        return "'" + "".join(f"\\x{octet:02X}" for octet in octets) + "'::BLOB"

    def select(self, case, where, as_text=False):
        names = [name.strip() for name in self.columns.split(",")]
        if case in OF_SOURCES:
            names = ["src_addr"]
        elif case in OF_TUPLES:
            names = ["protocol", "src_addr", "src_port", "dst_addr", "dst_port"]
        shown = ", ".join(self.address(name, as_text) if name.endswith("_addr") else name for name in names)
        if case in OF_SOURCES + OF_TUPLES:
            # by columns, since an alias may hide one
            keys = ", ".join(f"f.{name}" for name in names)
            top = f" ORDER BY octets DESC LIMIT {TOP}" if case.startswith("top") else ""
            return f"SELECT {shown}, sum(bytes)::UBIGINT AS octets FROM {self.source()} AS f WHERE {where} GROUP BY {keys}{top}"
        return f"SELECT {shown} FROM {self.source()} WHERE {where}"

    def where(self, case, hours):
        parts = []
        if hours is not None:
            parts.append(f"\"start\" BETWEEN make_timestamptz({ms(0)}000) AND make_timestamptz({ms(hours) - 1}000)")
        if case in ("filter", "group-source", "group-tuple"):
            parts.append(f"dst_port = {PORT}")
        if case == "host":
            host = self.literal(busy_host(self.archive.parent))
            parts.append(f"(src_addr = {host} OR dst_addr = {host})")
        return " AND ".join(parts) or "true"

    def timed(self, case, hours):
        return self.timed_command(self.select(case, self.where(case, hours)))

    def timed_command(self, sql):
        return self.ask(f"COPY ({sql}) TO '/dev/null' (FORMAT csv, USE_TMP_FILE false)")

    def rows(self, case, hours):
        return self.rows_of(self.select(case, self.where(case, hours), as_text=True), case)

    def rows_of(self, sql, case):
        file = self.archive.parent / "duckdb-rows.csv"
        self.ask(f"COPY ({sql}) TO '{file}' (FORMAT csv, HEADER false, TIMESTAMPFORMAT '%Y-%m-%d %H:%M:%S.%g')")
        with open(file) as lines:
            for line in lines:
                cells = line.rstrip("\n").split(",")
                if case not in OF_SOURCES + OF_TUPLES:
                    del cells[7]
                yield tuple(cells)
        file.unlink()

    def cool(self):
        self.close()
        traffic.drop_from_page_cache(self.file.parent if self.own else self.archive)

    def warm(self, case, hours):
        return self.timed(case, hours)

    def size(self):
        return traffic.octets_of(self.file.parent if self.own else self.archive / "flows")

    def close(self):
        if self.helper is not None:
            self.helper.stdin.close()
            self.helper.wait(timeout=600)
            self.helper = None
