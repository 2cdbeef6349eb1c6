// What the pages read in the text and the answers of watches.
import type { Column, JournalReport, Report, Watch } from "./api.ts";
import { termFor } from "./filterText.ts";

export type WatchState = "failed" | "paused" | "running" | "not run here";

export function stateOf(watch: Watch): WatchState {
  if (watch.error) return "failed";
  if (watch.paused) return "paused";
  return watch.counts ? "running" : "not run here";
}

/** What a running watch could not look at, from its counters; what is zero is left out. */
export function lossesOf(watch: Watch): [string, number][] {
  const usual = ["windows_closed", "windows_answered", "windows_corrected", "reports", "reports_suppressed", "reports_acknowledged", "reports_sent", "windows_waiting", "rows_waiting", "octets_waiting", "octets_kept"];
  return Object.entries(watch.counts ?? {}).filter(([name, count]) => count > 0 && !usual.includes(name));
}

/**
 * The statement of a watch file: places of mistakes are in it, and not in the file. Null when there is none, or when it is
 * written with escapes, so that octets of the file are not those of the statement.
 */
export function statementOf(file: string): string | null {
  const found = /^[ \t]*query[ \t]*=[ \t]*("""|'''|"|')/m.exec(file);
  if (!found) return null;
  const quote = found[1] ?? "";
  const begin = found.index + found[0].length;
  const end = file.indexOf(quote, begin);
  if (end < 0) return null;
  const text = file.slice(begin, end);
  if (quote.startsWith('"') && text.includes("\\")) return null;
  // A line break directly behind three quotes is not part of the text.
  return quote.length === 3 ? text.replace(/^\r?\n/, "") : text;
}

/**
 * The filter of what a report is about, by its key: `src_addr=192.0.2.1,dst_port=22`. Parts that the filter language has no word for
 * are left out; empty when there is none.
 */
export function filterOfKey(key: string, columns: Column[]): string {
  const terms: string[] = [];
  for (const part of key.split(",")) {
    const at = part.indexOf("=");
    const column = columns.find((each) => each.name === part.slice(0, at).trim());
    const term = at > 0 && column ? termFor(column, part.slice(at + 1).trim()) : null;
    if (term) terms.push(term);
  }
  return terms.join(" and ");
}

/** A report of a backtest, as those that were really made are. */
export function ofJournal(report: JournalReport): Report & { records_lost: number | null; suppressed: number } {
  return {
    ...report,
    window_start: Date.parse(report.window_start),
    window_end: Date.parse(report.window_end),
    rows_found: report.rows,
    rows: report.evidence,
    acknowledged: false,
    next_commands: report.next === "" ? [] : [report.next],
  };
}

export type Change = "same" | "new" | "gone";

export interface Comparison {
  /** Of both, in the order of time. */
  reports: (Report & { change: Change })[];
  same: number;
  new: number;
  gone: number;
}

/** What another version of a watch reports about the same time: a report is the same when its key and its window are. */
export function compared(before: JournalReport[], after: JournalReport[]): Comparison {
  const nameOf = (report: JournalReport) => `${report.window_end} ${report.key}`;
  const [old, now] = [new Set(before.map(nameOf)), new Set(after.map(nameOf))];
  const marked = (reports: JournalReport[], change: (name: string) => Change) => reports.map((report) => ({ ...ofJournal(report), change: change(nameOf(report)) }));
  const reports = [
    ...marked(after, (name) => (old.has(name) ? "same" : "new")),
    ...marked(before.filter((report) => !now.has(nameOf(report))), () => "gone").map((report) => ({ ...report, id: `gone-${report.id}` })),
  ].sort((a, b) => a.window_end - b.window_end);
  const count = (change: Change) => reports.filter((report) => report.change === change).length;
  return { reports, same: count("same"), new: count("new"), gone: count("gone") };
}

/** The file with another state; what else is in it stays as it is. */
export function withPaused(file: string, isPaused: boolean): string {
  const table = file.search(/^[ \t]*\[/m);
  const [head, tail] = table < 0 ? [file, ""] : [file.slice(0, table), file.slice(table)];
  // A line of the statement may look like a key: only what stands before and behind it counts.
  const statement = /^[ \t]*query[ \t]*=[ \t]*("""|\'\'\')[\s\S]*?\1/m.exec(head);
  const inside = (at: number) => statement !== null && at >= statement.index && at < statement.index + statement[0].length;
  for (const match of head.matchAll(/^[ \t]*paused[ \t]*=[ \t]*(true|false)/gm)) {
    if (!inside(match.index)) return `${head.slice(0, match.index)}paused = ${isPaused}${head.slice(match.index + match[0].length)}${tail}`;
  }
  return isPaused ? `paused = true\n${file}` : file;
}
