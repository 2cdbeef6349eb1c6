// What the fixture server says about exporters, watches, reports, the archive and series.
import type { ArchiveAnswer, Backtest, Exporter, Live, Report, SeriesNames, Watch } from "../src/api.ts";
import { COMPLETE, INCOMPLETE, UNKNOWN } from "./fixture-answers.ts";
import { mix, SCANNER } from "./fixture-data.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

export function exportersAt(nowMs: number): Exporter[] {
  const common = { domain: 0, version: 10, templates: 4, flows: 3_402_117, datagrams: 179_201, lost_datagrams: 0, dropped_datagrams: 0, first_seen_ms: nowMs - 90 * DAY_MS };
  return [
    { ...common, exporter: "10.0.0.1", name: "edge-fra-1", last_seen_ms: nowMs - 400, lost_records: 0, sampling_interval: 100, clock_behind_ms: 12, completeness: COMPLETE, advice: [] },
    {
      ...common, exporter: "10.0.0.2", name: "edge-ams-1", last_seen_ms: nowMs - 900, lost_records: 114, lost_datagrams: 6, clock_behind_ms: 448_803, completeness: INCOMPLETE,
      advice: [
        { level: "warning", title: "some datagrams are lost", text: "114 of 20000 records missing (0.57 %)", hint: "look for full queues and policers between exporter and collector" },
        { level: "hint", title: "the clock is behind", text: "by 7 min 29 s", hint: "let the router use NTP" },
      ],
    },
    { ...common, exporter: "2001:db8::9", version: 105, last_seen_ms: nowMs - 47 * MINUTE_MS, lost_records: 0, completeness: UNKNOWN, advice: [{ level: "error", title: "silent", text: "nothing came for 47 minutes", hint: "see whether the router still sends" }] },
  ];
}

export function liveAt(nowMs: number, tick: number, open: number): Live {
  const wave = 1 + 0.3 * Math.sin(tick / 9) + 0.1 * mix(tick);
  const exporter = (address: string, name: string, part: number) => ({ exporter: address, name, flows_per_s: 1650 * part * wave, packets_per_s: 41_000 * part * wave, bytes_per_s: 31_000_000 * part * wave });
  return {
    time_ms: nowMs, flows_per_s: 1650 * wave, packets_per_s: 41_000 * wave, bytes_per_s: 31_000_000 * wave,
    exporters: [exporter("10.0.0.1", "edge-fra-1", 0.7), exporter("10.0.0.2", "edge-ams-1", 0.3)], drops: 0, reports_open: open,
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

export function watchesAt(nowMs: number): Watch[] {
  return [
    { name: "ddos", title: "A host is flooded", severity: "critical", state: "running", window_ms: 10_000, last_window_end_ms: nowMs - 8000, reports_open: 0, text: 'title = "A host is flooded"\n' },
    { name: "portscan", title: "A host tries many services", severity: "warning", state: "running", window_ms: MINUTE_MS, last_window_end_ms: nowMs - 20_000, reports_open: 2, text: SCAN_FILE, method: "Flows of at most three packets are tries.", pitfalls: "Monitoring systems look like scanners." },
    { name: "beaconing", title: "A host calls the same service at a steady pace", severity: "notice", state: "failed", error: "the answer took longer than 1m", window_ms: 3_600_000, reports_open: 0, text: "" },
    { name: "mice", title: "Traffic of hosts that usually send little", severity: "info", state: "paused", window_ms: 3_600_000, reports_open: 0, text: "" },
  ];
}

export function reportAt(endMs: number, key: string, at: number, acknowledged = false): Report {
  return {
    id: `portscan-${endMs}-${at}`, watch: "portscan", title: "A host tries many services", severity: at % 3 === 2 ? "critical" : "warning", window_start: endMs - MINUTE_MS, window_end: endMs, key: `src_addr=${key}`,
    rows: 1, evidence: [{ src_addr: key, services: 412 + at, usual_hosts: 0 }], columns: ["src_addr", "services", "usual_hosts"], records_lost: at % 2 === 0 ? 0 : null, suppressed: at, next: `weir query -R flows -s dstport/flows 'src ip ${key}'`, acknowledged,
  };
}

export function reportsAt(nowMs: number): Report[] {
  return [reportAt(nowMs - 3 * MINUTE_MS, SCANNER, 0), reportAt(nowMs - 70 * MINUTE_MS, "192.0.2.33", 1), reportAt(nowMs - 5 * 60 * MINUTE_MS, "192.0.2.18", 2, true)];
}

export function backtestAt(nowMs: number, days: number): Backtest {
  const firings = Array.from({ length: days * 4 }, (_, at) => {
    const end = Math.floor((nowMs - days * DAY_MS + mix(at + 5) * days * DAY_MS) / MINUTE_MS) * MINUTE_MS;
    return { window_start: end - MINUTE_MS, window_end: end, reports: [reportAt(end, at % 3 === 0 ? SCANNER : `192.0.2.${30 + (at % 4)}`, at)] };
  }).sort((a, b) => a.window_end - b.window_end);
  return { windows: days * 1440, rows: 48_211_904, suppressed: 12, rows_shed: 0, took_ms: 2140, first_ms: nowMs - days * DAY_MS, last_ms: nowMs, firings };
}

export function archiveAt(nowMs: number): ArchiveAnswer {
  const days = Array.from({ length: 21 }, (_, at) => ({ day: new Date(nowMs - at * DAY_MS).toISOString().slice(0, 10), segments: 24 + (at % 3), flows: Math.floor(9e6 + mix(at) * 4e6), octets: Math.floor(1.9e8 + mix(at) * 9e7) }));
  return {
    folder: "flows", flows: 231_904_112, octets: 4_810_331_204, segments: 511, oldest_ms: nowMs - 21 * DAY_MS, newest_ms: nowMs - 1200,
    tables: [{ name: "flows", rows: 231_904_112, octets: 4_610_331_204 }, { name: "books", rows: 90_720, octets: 9_812_331 }, { name: "statistics", octets: 190_187_669 }],
    days, retention: { sentence: "flows are kept for 90 days, or until the archive has 500 GB" }, damaged: [{ path: "2026-11-02/07.weir", reason: "the checksum of column 4 is wrong" }],
  };
}

export function seriesAt(nowMs: number): SeriesNames {
  const step = (ms: number, kept: number) => ({ step_ms: ms, kept_ms: kept, first_ms: nowMs - Math.min(kept, 21 * DAY_MS), last_ms: nowMs });
  return {
    families: [
      { by: "total", keys: 1, metrics: ["flows", "packets", "bytes"], coverage: "all" },
      { by: "exporter+in_if", keys: 8, metrics: ["flows", "packets", "bytes"], coverage: "all" },
      { by: "src_addr", keys: 9959, metrics: ["flows", "packets", "bytes", "peers"], coverage: "largest" },
    ],
    steps: [step(1000, 3_600_000), step(MINUTE_MS, 2 * DAY_MS), step(5 * MINUTE_MS, 400 * DAY_MS)],
  };
}
