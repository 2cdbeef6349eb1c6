// What the pages read in the text and the answers of watches.
import type { JournalReport, Report, Watch } from "./api.ts";

export type WatchState = "failed" | "paused" | "running" | "not run here";

export function stateOf(watch: Watch): WatchState {
  if (watch.error) return "failed";
  if (watch.paused) return "paused";
  return watch.counts ? "running" : "not run here";
}

/** What a running watch could not look at, from its counters; what is zero is left out. */
export function lossesOf(watch: Watch): [string, number][] {
  const usual = ["windows_closed", "windows_answered", "reports", "reports_suppressed", "reports_acknowledged"];
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
