// The types of the whole API of `weir serve`, base `/api/v1`. Times in answers are milliseconds since 1970, UTC.

/** A counter: a number up to 2^53, text above. */
export type Count = number | string;
export type Cell = string | number | boolean | null;
export type ColumnType = "address" | "number" | "time" | "text" | "flags" | "bool";
export type Measure = "bytes" | "packets" | "flows";
export type Verdict = "complete" | "incomplete" | "unknown";
export type Severity = "info" | "notice" | "warning" | "critical";

export interface Completeness {
  verdict: Verdict;
  sentence: string;
  lost_records: Count;
  lost_datagrams: Count;
  dropped_datagrams: Count;
  /** Share that arrived; null when nothing is known. */
  share: number | null;
}

export interface AnswerColumn {
  name: string;
  label: string;
  type: ColumnType;
  unit?: string | null;
  description?: string | null;
}

export interface Totals {
  flows: Count;
  packets: Count;
  bytes: Count;
}

/** What `/flows`, `/rank`, `/group` and `/sql` answer. */
export interface TableAnswer {
  columns: AnswerColumn[];
  rows: Cell[][];
  totals?: Totals | null;
  completeness?: Completeness | null;
  position?: string | number | null;
  took_ms: number;
  is_cached?: boolean;
  is_truncated?: boolean;
}

export interface Info {
  version: string;
  started_ms: number;
  archive: {
    folder: string;
    flows: Count;
    octets: Count;
    segments: number;
    first_ms: number | null;
    last_ms: number | null;
  };
  collecting: { listen: string }[];
  user: { name: string; role: string } | null;
}

export interface TimelineAnswer {
  step_ms: number;
  times: number[];
  series: { name: string; values: (number | null)[] }[];
  unit: string;
  completeness?: Completeness | null;
  took_ms: number;
}

export interface SankeyAnswer {
  nodes: { id: string | number; column: string; name: string }[];
  links: { source: string | number; target: string | number; value: number }[];
  unit?: string;
  completeness?: Completeness | null;
  took_ms?: number;
}

export interface Estimate {
  segments: number;
  octets: Count;
  rows_max: Count;
}

export interface RunningQuestion {
  id: string;
  user: string | null;
  text: string;
  since_ms: number;
  rows_read: Count;
  octets_read: Count;
}

/** A column of flows. */
export interface Column {
  name: string;
  label: string;
  type: ColumnType;
  unit?: string | null;
  description?: string | null;
  /** Words of the filter language that read it, such as `src ip`; the first one is used for filters made by a click. */
  filter_words?: string[] | string | null;
}

export interface FilterError {
  message: string;
  hint?: string | null;
  /** Octets of the text. */
  from?: number | null;
  to?: number | null;
}

export interface FilterCheck {
  ok: boolean;
  error?: FilterError | null;
}

export interface Completion {
  text: string;
  label: string;
  description?: string | null;
}

export interface ExporterCompleteness {
  exporter: string;
  domain: number;
  completeness: Completeness;
}

export interface Advice {
  level: "error" | "warning" | "hint";
  title: string;
  text?: string | null;
  hint?: string | null;
}

export interface Exporter {
  exporter: string;
  domain: number;
  name?: string | null;
  version?: number | null;
  first_seen_ms?: number | null;
  last_seen_ms: number | null;
  flows: Count;
  datagrams: Count;
  lost_records: Count;
  lost_datagrams: Count;
  dropped_datagrams: Count;
  templates?: number | null;
  sampling_interval?: number | null;
  clock_behind_ms?: number | null;
  completeness: Completeness;
  advice: Advice[];
}

export interface ExportersAnswer {
  exporters: Exporter[];
  completeness?: Completeness | null;
}

export interface Watch {
  name: string;
  title: string;
  severity: Severity;
  state: "running" | "paused" | "failed" | "idle";
  error?: string | null;
  window_ms?: number | null;
  last_window_end_ms?: number | null;
  reports_open: number;
  /** The file. */
  text?: string | null;
  method?: string | null;
  pitfalls?: string | null;
}

export interface Report {
  id: string;
  watch: string;
  title: string;
  severity: Severity;
  window_start: number;
  window_end: number;
  key: string;
  rows: number;
  evidence: Record<string, Cell>[];
  columns?: string[] | null;
  records_lost?: number | null;
  suppressed?: number;
  next?: string | null;
  acknowledged: boolean;
}

export interface Backtest {
  windows: number;
  rows: Count;
  suppressed: number;
  rows_shed: Count;
  took_ms: number;
  first_ms: number | null;
  last_ms: number | null;
  firings: { window_start?: number | null; window_end: number; reports: Report[] }[];
}

export interface ArchiveAnswer {
  folder: string;
  flows: Count;
  octets: Count;
  segments: number;
  oldest_ms: number | null;
  newest_ms: number | null;
  tables: { name: string; rows?: Count | null; octets: Count }[];
  days: { day: string; segments: number; flows: Count; octets: Count }[];
  retention: { sentence: string };
  damaged: { path: string; reason: string }[];
}

export interface SeriesFamily {
  by: string;
  keys: number;
  metrics: string[];
  coverage: "all" | "largest";
}

export interface SeriesNames {
  families: SeriesFamily[];
  steps: { step_ms: number; kept_ms: number; first_ms: number | null; last_ms: number | null }[];
}

export interface SeriesAnswer {
  step_ms: number;
  times: number[];
  series: { name: string; values: (number | null)[] }[];
  unit: string;
}

/** One event of `/live`, about one second. */
export interface Live {
  time_ms: number;
  flows_per_s: number;
  packets_per_s: number;
  bytes_per_s: number;
  exporters: LiveExporter[];
  drops: number;
  reports_open: number;
  completeness?: Completeness | null;
}

export interface LiveExporter {
  exporter: string;
  name?: string | null;
  flows_per_s: number;
  packets_per_s: number;
  bytes_per_s: number;
  lost_records?: number | null;
  completeness?: Completeness | null;
}

/** `application/problem+json`. */
export interface ProblemBody {
  type?: string;
  title: string;
  status: number;
  detail?: string;
  hint?: string;
  /** Octets of the filter or the statement. */
  place?: { from: number; to: number };
}
