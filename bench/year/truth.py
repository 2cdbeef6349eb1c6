"""What the generator knows, the questions, and how their answers are checked against it."""

import collections
import csv
import datetime
import io

# what the generator counted on a day
Day = collections.namedtuple("Day", "date flows packets bytes host_flows host_bytes")
# `ask(archive)` is a command, `check(text)` raises when the answer is not the truth; `check_day` does so for the archive
# of the day alone; `same` means that both archives have to give the same answer
Question = collections.namedtuple("Question", "name ask check check_day same")


class Wrong(Exception):
    """An answer that is not the truth."""


class Truth:
    def __init__(self, folder):
        with open(folder / "truth.csv") as file:
            rows = [(row.pop("day"), row) for row in csv.DictReader(file)]
        self.days = [Day(date, *(int(row[name]) for name in Day._fields[1:])) for date, row in rows]
        self.host = (folder / "host.txt").read_text().strip()

    def middle(self):
        """The middle of the year, or the working day after it."""
        place = len(self.days) // 2
        while datetime.date.fromisoformat(self.days[place].date).weekday() > 4 and place + 1 < len(self.days):
            place += 1
        return self.days[place]

    def around(self, day, count):
        """Days up to this one, as many as wanted when there are so many."""
        place = self.days.index(day) + 1
        return self.days[max(0, place - count):place]


def window(days):
    """Flags of `weir query` for these days. Flows are wholly within their day, so that no other one is active then."""
    return ["--from", f"{days[0].date}T00:00:00Z", "--until", f"{days[-1].date}T23:59:59.999Z"]


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def expect(found, wanted, what):
    if found != wanted:
        raise Wrong(f"{what}: {found}, but the truth is {wanted}")


def flows_of_host(days):
    """The list of a host's flows: how many, and their bytes."""
    def check(text):
        rows = rows_of(text)
        expect(len(rows), sum(day.host_flows for day in days), "flows of the host")
        expect(sum(int(row["bytes"]) for row in rows), sum(day.host_bytes for day in days), "bytes of the host")
    return check


def sums_by_day(days):
    def check(text):
        found = {row["day"][:10]: (int(row["flows"]), int(row["bytes"])) for row in rows_of(text)}
        expect(found, {day.date: (day.flows, day.bytes) for day in days}, "flows and bytes by day")
    return check


def ten_rows(text):
    """A ranking: its rows are compared with those of others, here only that it is one."""
    rows = rows_of(text)
    expect(len(rows), 10, "rows of a ranking")
    sizes = [int(row["bytes"]) for row in rows]
    expect(sizes, sorted(sizes, reverse=True), "bytes of a ranking")


def booked(days):
    def check(text):
        stored = sum(int(row["records_stored"] or 0) for row in rows_of(text))
        expect(stored, sum(day.flows for day in days), "records stored by the books")
    return check


def listed(days):
    def check(text):
        rows = [row for row in rows_of(text) if row.get("table", "flows") == "flows"]
        expect(sum(int(row["rows"]) for row in rows), sum(day.flows for day in days), "flows by the list of the archive")
    return check


def anything(text):
    if not text.strip():
        raise Wrong("no answer")


def questions(weir, truth):
    day = truth.middle()
    month, year = truth.around(day, 30), truth.days

    def sql(statement):
        return lambda archive: [weir, "sql", "-q", "-R", archive, "-o", "csv", statement]

    def command(*words, more=()):
        return lambda archive: [weir, *words, "-R", archive, *more]

    # without -q, which leaves out the header
    def host_of(days):
        return lambda archive: [weir, "query", "-R", archive, "-o", "csv", *window(days), f"ip {truth.host}"]

    def top(days):
        return lambda archive: [weir, "query", "-R", archive, "-o", "csv", "-s", "srcip/bytes", "-n", "10", *window(days)]

    by_day = "SELECT date_trunc('day', received) AS day, count(*) AS flows, sum(bytes) AS bytes FROM flows"
    within = f"received >= TIMESTAMP '{day.date}T00:00:00Z' AND received < TIMESTAMP '{day.date}T00:00:00Z' + INTERVAL '1 day'"
    def asked(name, ask, check, check_day=None, same=False):
        return Question(name, ask, check, check_day or check, same)

    def everything(words):
        return lambda archive: [weir, "query", "-R", archive, "-o", "csv", *words]

    return [
        asked("one host on one day", host_of([day]), flows_of_host([day]), same=True),
        asked("one host, any time", everything([f"ip {truth.host}"]), flows_of_host(year), flows_of_host([day])),
        asked("top 10 sources of the day", top([day]), ten_rows, same=True),
        asked(f"top 10 sources of {len(month)} days", top(month), ten_rows),
        asked("top 10 sources of all", everything(["-s", "srcip/bytes", "-n", "10"]), ten_rows),
        asked("SQL, flows and bytes of the day", sql(f"{by_day} WHERE {within} GROUP BY 1"), sums_by_day([day]), same=True),
        asked("SQL, flows and bytes by day", sql(f"{by_day} GROUP BY 1 ORDER BY 1"), sums_by_day(year), sums_by_day([day])),
        asked("books", command("books", more=("-o", "csv")), booked(year), booked([day])),
        asked("archive ls", command("archive", "ls", more=("-o", "csv")), listed(year), listed([day])),
        asked("archive status", command("archive", "status"), anything),
    ]
