// What the fixture server says about exporters, watches, reports, the archive and series.
import type { ArchiveAnswer, Backtest, Books, Dashboard, Exporter, Interface, JournalReport, KnownName, Live, Report, SeriesNames, Watch } from "../src/api.ts";
import { COMPLETE, INCOMPLETE, UNKNOWN } from "./fixture-answers.ts";
import { mix, SCANNER } from "./fixture-data.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** Of the last five minutes nothing is missing. */
export function booksAt(nowMs: number, isShort = false): Books {
  const common = { domain: 0, version: 9, flows: 3_402_117, datagrams: 179_201, lost_records: 0, lost_datagrams: 0 };
  const exporters: Exporter[] = [
    { ...common, exporter: "10.0.0.1", last_seen_from_ms: nowMs - 400, last_seen_ms: nowMs, completeness: COMPLETE, advice: [] },
    {
      ...common, exporter: "10.0.0.2", last_seen_from_ms: nowMs - 900, last_seen_ms: nowMs, lost_records: 114, lost_datagrams: 6, completeness: INCOMPLETE,
      advice: [
        { severity: "warning", finding: "loss_little", evidence: "114 of 20000 records missing (0.57 %)", remedy: "some datagrams are lost between exporter and collector: look for full queues and policers on the path" },
        { severity: "hint", finding: "clock_behind", evidence: "by 448 s", remedy: "let the exporter use NTP" },
      ],
    },
    { ...common, exporter: "2001:db8::9", last_seen_from_ms: nowMs - 48 * MINUTE_MS, last_seen_ms: nowMs - 47 * MINUTE_MS, completeness: UNKNOWN, advice: [{ severity: "error", finding: "unsequenced", evidence: "179201 datagrams without sequence numbers", remedy: "nothing can be said about loss" }] },
  ];
  const counters = [
    { name: "records_stored", count: 10_206_351, description: "Records that were stored." },
    { name: "records_lost", count: 114, description: "Records missing by sequence numbers." },
  ];
  if (isShort) return { ...COMPLETE, exporters: exporters.slice(0, 2).map((each) => ({ ...each, completeness: COMPLETE })), counters: [] };
  return { ...INCOMPLETE, sentence: "99.98 % complete: 114 records lost on the way", share: 0.9998, exporters, counters };
}

export function liveAt(nowMs: number, tick: number, open: number): Live {
  const wave = 1 + 0.3 * Math.sin(tick / 9) + 0.1 * mix(tick);
  const exporter = (address: string, part: number) => ({ exporter: address, flows_per_s: 1650 * part * wave, packets_per_s: 41_000 * part * wave, bytes_per_s: 31_000_000 * part * wave });
  return {
    time_ms: nowMs, flows_per_s: 1650 * wave, packets_per_s: 41_000 * wave, bytes_per_s: 31_000_000 * wave,
    exporters: [exporter("10.0.0.1", 0.7), exporter("10.0.0.2", 0.3)], drops: 0, reports_open: open,
  };
}

const SCAN_FILE = `title = "A host tries many services"
severity = "warning"
key = ["src_addr"]
repeat_after = "1h"
query = """
SELECT src_addr, count(*) AS services
FROM TUMBLE(flows, received, :window)
WHERE packets <= 3
GROUP BY src_addr
HAVING count(*) >= :fanout_min
"""
[parameters]
window = "1m"
fanout_min = 100
`;

export function watchesAt(): Watch[] {
  const counts = { windows_closed: 1441, windows_answered: 1440, reports: 2, reports_suppressed: 12, rows_late: 0, windows_shed: 0, octets_kept: 456_980_736 };
  const wrong = { type: "urn:weir:statement", title: "the statement is wrong", status: 400, detail: "no column 'colum'", hint: "did you mean 'column'?", place: { from: 7, to: 12 } };
  const watches: Omit<Watch, "etag">[] = [
    { name: "beaconing", title: "A host calls the same service at a steady pace", severity: "notice", paused: false, error: wrong, text: 'query = "SELECT colum FROM flows"\n', counts: null },
    { name: "ddos", title: "A host is flooded", severity: "critical", paused: false, error: null, text: 'title = "A host is flooded"\n', counts: { ...counts, windows_shed: 3 } },
    { name: "mice", title: "Traffic of hosts that usually send little", severity: "info", paused: true, error: null, text: "", counts: null },
    { name: "portscan", title: "A host tries many services", severity: "warning", paused: false, error: null, text: SCAN_FILE, counts },
  ];
  return watches.map((watch) => ({ ...watch, etag: etagOf(watch.text) }));
}

const severityOf = (at: number) => (at % 3 === 2 ? ("critical" as const) : ("warning" as const));
const rowsOf = (key: string, at: number) => [{ src_addr: key, services: 412 + at, usual_hosts: 0 }];
const nextOf = (key: string) => `weir query -R flows -s dstport/flows 'src ip ${key}'`;

export function reportAt(endMs: number, key: string, at: number, acknowledged = false): Report {
  return {
    id: `portscan-${endMs}-${at}`, watch: "portscan", title: "A host tries many services", severity: severityOf(at), window_start: endMs - MINUTE_MS, window_end: endMs,
    key: `src_addr=${key}`, rows_found: 1, rows: rowsOf(key, at), acknowledged, next_commands: [nextOf(key)],
  };
}

export function reportsAt(nowMs: number): Report[] {
  return [reportAt(nowMs - 3 * MINUTE_MS, SCANNER, 0), reportAt(nowMs - 70 * MINUTE_MS, "192.0.2.33", 1), reportAt(nowMs - 5 * 60 * MINUTE_MS, "192.0.2.18", 2, true)];
}

/** Days of the archive. */
const ARCHIVE_DAYS = 21;

/** Of windows of a minute, of which those that have less than so many days of the archive before them are not asked. */
export function backtestAt(nowMs: number, days: number, perDay: number, historyDays: number): Backtest {
  const daysAsked = Math.min(days, Math.max(0, ARCHIVE_DAYS - historyDays));
  const reports = Array.from({ length: daysAsked * perDay }, (_, at): JournalReport => {
    const end = Math.floor((nowMs - daysAsked * DAY_MS + mix(at + 5) * daysAsked * DAY_MS) / MINUTE_MS) * MINUTE_MS;
    const key = at % 3 === 0 ? SCANNER : `192.0.2.${30 + (at % 4)}`;
    return {
      id: `portscan-${end}-${at}`, watch: "portscan", title: "A host tries many services", severity: severityOf(at), window_start: new Date(end - MINUTE_MS).toISOString(),
      window_end: new Date(end).toISOString(), key: `src_addr=${key}`, rows: 1, evidence: rowsOf(key, at), records_lost: at % 2 === 0 ? 0 : null, suppressed: at, next: nextOf(key),
    };
  }).sort((a, b) => a.window_end.localeCompare(b.window_end));
  const firings = reports.map((report) => ({ window_end: Date.parse(report.window_end), reports: 1 }));
  return {
    windows: days * 1440, windows_without_past: (days - daysAsked) * 1440, windows_failed: 0, failure: null, rows: 48_211_904, suppressed: 12, rows_shed: 0, took_ms: 2140.7, first_ms: nowMs - days * DAY_MS, last_ms: nowMs,
    reports: reports.length, firings, first_reports: reports,
  };
}

export function archiveAt(nowMs: number): ArchiveAnswer {
  const days = Array.from({ length: ARCHIVE_DAYS }, (_, at) => ({ table: "flows", day: new Date(nowMs - at * DAY_MS).toISOString().slice(0, 10), segments: 24 + (at % 3), rows: Math.floor(9e6 + mix(at) * 4e6), octets: Math.floor(1.9e8 + mix(at) * 9e7) }));
  return {
    folder: "flows", position: 812_331, days,
    tables: [{ table: "flows", segments: 501, rows: 231_904_112, octets: 4_610_331_204 }, { table: "books", segments: 21, rows: 90_720, octets: 9_812_331 }],
    oldest_ms: nowMs - ARCHIVE_DAYS * DAY_MS, newest_ms: nowMs - 120_000, rows_unsealed: 91_204, tail_octets: 4_100_200, rows_expired: 0, rows_set_aside: 4512, damaged_tails: 0, pending_files: 0, pending_octets: 0, statistics: [], free_octets: 91_000_000_000,
  };
}

export function seriesAt(family: string | null): SeriesNames {
  const common = ["flows", "packets", "bytes"];
  return {
    families: [{ name: "total", metrics: common }, { name: "exporter+in_if", metrics: common }, { name: "src_addr", metrics: [...common, "peers"] }],
    steps_ms: [1000, MINUTE_MS, 5 * MINUTE_MS, 3_600_000],
    keys: family === "total" ? ["total"] : family === "src_addr" ? ["192.0.2.10", "192.0.2.11", "198.51.100.10", "other"] : family ? ["10.0.0.1 1", "10.0.0.2 1"] : [],
  };
}

const NAMES: Record<string, KnownName> = {
  "198.51.100.10": { label: "web shop", country: "DE", as: 64_498 },
  [SCANNER]: { country: "NL", as: 64_499 },
};
/** By the file about labels that there was until two days ago. */
const NAMES_BEFORE: Record<string, KnownName> = { ...NAMES, "198.51.100.10": { label: "old shop", country: "DE", as: 64_498 } };

/** Of what is asked only what is known. */
export function namesOf(addresses: string[], atMs: number | null, nowMs: number): Record<string, KnownName> {
  const known = atMs !== null && atMs < nowMs - 2 * DAY_MS ? NAMES_BEFORE : NAMES;
  return Object.fromEntries(Object.entries(known).filter(([address]) => addresses.includes(address)));
}

export function interfacesAt(): Interface[] {
  const traffic = (bytes: number) => ({ flows: Math.floor(bytes / 40_000), packets: Math.floor(bytes / 700), bytes });
  const one = (exporter: string, index: number): Interface => ({
    exporter, index, name: index === 3 ? "xe-0/0/3" : null, description: index === 3 ? "to transit" : null, speed_bps: index === 3 ? 10_000_000_000 : null,
    in: traffic(900_000_000 / index), out: traffic(700_000_000 / index),
  });
  return ["10.0.0.1", "10.0.0.2"].flatMap((exporter) => [1, 2, 3, 4].map((index) => one(exporter, index)));
}

export const BORDER = `title = "Border"

[[panels]]
title = "Who sends most"
question = "by=src_addr&previous=yes"
wide = true

[[panels]]
title = "Ports"
question = "by=dst_port&view=table&top=5"

[[panels]]
title = "From whom to which port"
question = "by=src_as,dst_port&view=sankey"
`;

/** The tag of a text: its length will do. */
export function etagOf(text: string): string {
  return `"${text.length}"`;
}

/** As much of TOML as the dashboards of these tests have. */
export function dashboardOf(name: string, text: string): Dashboard {
  const value = (part: string, key: string): string => JSON.parse(new RegExp(`^${key} = (".*")$`, "m").exec(part)?.[1] ?? '""') as string;
  const [head = "", ...panels] = text.split("[[panels]]");
  return { name, title: value(head, "title"), error: null, text, etag: etagOf(text), panels: panels.map((part) => ({ title: value(part, "title"), question: value(part, "question"), wide: part.includes("wide = true") })) };
}
