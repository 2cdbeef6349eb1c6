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
  /** Flows that are there. */
  stored?: Count;
  lost_records: Count;
  lost_datagrams: Count;
  dropped_datagrams: Count;
  /** Share that arrived; null when nothing is known. */
  share: number | null;
}

/** Whether packets and bytes are scaled by sampling, and how many flows were sampled as far as exporters report it. */
export interface Sampling {
  is_scaled: boolean;
  by: "none" | "reported" | "corrections";
  has_sampled: boolean;
  /** Null where flows were not counted. */
  sampled_flows: Count | null;
  unknown_flows: Count | null;
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

/** Why an answer has no rows; the times say how far the archive reaches, where that says more. */
export interface WhyEmpty {
  text: string;
  first_ms: number | null;
  last_ms: number | null;
}

/** What `/flows`, `/rank`, `/group` and `/sql` answer. */
export interface TableAnswer {
  columns: AnswerColumn[];
  rows: Cell[][];
  totals?: Totals | null;
  /** Nothing of flows one by one and of statements. */
  sampling?: Sampling | null;
  completeness?: Completeness | null;
  position?: string | number | null;
  took_ms: number;
  is_cached?: boolean;
  is_truncated?: boolean;
  why_empty?: WhyEmpty | null;
  /** What of the rows is lost; absent when nothing is. */
  warnings?: string[];
}

export type Role = "ingest" | "viewer" | "analyst" | "admin";

export interface User {
  name: string;
  role: Role;
  /** False for a role that sees a part of the flows, or pseudonyms: books, watches and statistics are not for it. */
  sees_all?: boolean;
}

export interface Info {
  version: string;
  started_ms: number;
  /** Null for who is not signed in. */
  user: User | null;
  has_users: boolean;
  archive: {
    folder: string;
    flows: Count;
    octets: Count;
    segments: number;
    first_ms: number | null;
    last_ms: number | null;
  } | null;
  collecting: { listen: string }[];
}

export interface TimelineAnswer {
  step_ms: number;
  times: number[];
  series: { name: string; values: (number | null)[] }[];
  unit: string;
  sampling?: Sampling | null;
  completeness?: Completeness | null;
  why_empty?: WhyEmpty | null;
  took_ms: number;
}

/** What `/sketch` answers: rates of a part of the flows, before the exact ones are there. */
export interface SketchAnswer extends TimelineAnswer {
  /** Of the flows that were read. */
  share: number;
}

export interface SankeyAnswer {
  nodes: { id: string | number; column: string; name: string }[];
  links: { source: string | number; target: string | number; value: number }[];
  unit?: string;
  sampling?: Sampling | null;
  completeness?: Completeness | null;
  why_empty?: WhyEmpty | null;
  took_ms?: number;
}

/** What the filter leaves of a time, by the indexes of segments; of octets it is no upper bound. */
export interface Estimate {
  filtered_segments: number;
  filtered_octets: Count;
  filtered_rows_max: Count;
}

export interface RunningQuestion {
  id: number;
  user: string;
  /** `group by=src_addr …`: the last part of the path first. */
  text: string;
  since_ms: number;
  rows_read: Count;
  octets_read: Count;
  /** Rows of the archive; 0 before it is known. */
  rows_all: Count;
}

/** What `/names` knows of a value by the files of the server and by exporters; what is not known is left out. */
export interface KnownName {
  /** Label of an address, name of an interface. */
  label?: string;
  country?: string;
  as?: number;
}

/** What `/names` answers: names by value, by column. Values of which nothing is known are left out. */
export type KnownNames = Record<string, Record<string, KnownName>>;

export interface InterfaceTraffic {
  flows: Count;
  packets: Count;
  bytes: Count;
  has_sampled?: boolean;
}

/** What `/interfaces` lists. */
export interface Interface {
  exporter: string;
  index: number;
  name: string | null;
  description: string | null;
  speed_bps: number | null;
  is_scaled?: boolean;
  in: InterfaceTraffic;
  out: InterfaceTraffic;
}

/** A column of flows. */
export interface Column {
  name: string;
  label: string;
  type: ColumnType;
  unit?: string | null;
  description?: string | null;
  /** Words of the filter language that read it, such as `src ip`. */
  filter_words?: string[];
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

/** What `/sql/check` answers. */
export interface StatementCheck {
  ok: boolean;
  error?: ProblemBody | null;
}

export interface Completion {
  text: string;
  label: string;
  description?: string | null;
}

/** What the doctor found in the books. */
export interface Advice {
  finding: string;
  severity: "error" | "warning" | "hint";
  evidence: string;
  remedy: string;
}

export interface Exporter {
  /** Null for what is not known per exporter. */
  exporter: string | null;
  domain: number | null;
  /** Of the export protocol; null where it is not known. */
  version: number | null;
  /** Its last record came at this time or before, and at the other one or after: books are by the minute. */
  last_seen_ms: number | null;
  last_seen_from_ms: number | null;
  flows: Count;
  datagrams: Count;
  lost_records: Count;
  lost_datagrams: Count;
  completeness: Completeness;
  advice: Advice[];
}

export interface Counter {
  name: string;
  count: Count;
  description: string;
}

/** What `/exporters/ADDRESS` answers for each Observation Domain and version of the export protocol. */
export interface DomainBooks {
  domain: number | null;
  version: number | null;
  /** Mean over datagrams; negative when the exporter's clock is behind. */
  clock_ahead_ms: number | null;
  counters: Counter[];
}

/** What `/completeness` answers. */
export interface Books extends Completeness {
  exporters: Exporter[];
  counters: Counter[];
}

export interface Watch {
  name: string;
  title: string;
  severity: Severity | "";
  /** By a pause, or because the file says so. */
  paused: boolean;
  error: ProblemBody | null;
  /** The file. */
  text: string;
  /** Its tag, which a change of it names; empty when it cannot be read. */
  etag: string;
  /** What it did since the process began; null where this process does not run it. */
  counts: Record<string, number> | null;
}

export interface WatchCheck {
  ok: boolean;
  error: ProblemBody | null;
  plan: string | null;
}

/** A question of a dashboard, as the address of Explore has it. */
export interface Panel {
  title: string;
  question: string;
  wide: boolean;
}

export interface Dashboard {
  name: string;
  title: string;
  panels: Panel[];
  error: ProblemBody | null;
  /** The file. */
  text: string;
  /** Its tag, which a change of it names; empty when it cannot be read. */
  etag: string;
}

export interface Report {
  id: string;
  watch: string;
  title: string;
  severity: Severity;
  window_start: number | null;
  window_end: number;
  key: string;
  rows_found: number;
  /** The first of them. */
  rows: Record<string, Cell>[];
  acknowledged: boolean;
  next_commands: string[];
}

/** A report as its journal has it: times are text. */
export interface JournalReport {
  id: string;
  watch: string;
  title: string;
  severity: Severity;
  window_start: string;
  window_end: string;
  key: string;
  rows: number;
  evidence: Record<string, Cell>[];
  records_lost: number | null;
  rows_left_out?: number;
  /** Whether a sum does not fit into 64 bits, so that the largest number stands for it. */
  saturated?: boolean;
  suppressed: number;
  next: string;
}

export interface Backtest {
  windows: number;
  /** Those that were not asked, because the archive has less of the past than `history_min`. */
  windows_without_past: number;
  /** Those without an answer, and why the first of them has none. */
  windows_failed?: number;
  failure?: string | null;
  rows: Count;
  suppressed: number;
  rows_shed: Count;
  /** Flows dated after their reception by more than `skew`, and those without the time that windows go by. */
  rows_future?: Count;
  rows_without_time?: Count;
  took_ms: number;
  first_ms: number | null;
  last_ms: number | null;
  /** How many it would have made. */
  reports: number;
  firings: { window_end: number; reports: number }[];
  /** The first thousand. */
  first_reports: JournalReport[];
}

export interface ArchiveAnswer {
  folder: string;
  position: number;
  days: { table: string; day: string; segments: number; rows: Count; octets: Count }[];
  tables: { table: string; segments: number; rows: Count; octets: Count }[];
  oldest_ms: number | null;
  newest_ms: number | null;
  /** Flows that are in no segment yet, and the octets that have them. */
  rows_unsealed: Count;
  tail_octets: Count;
  rows_expired: Count;
  /** Flows of segments that are damaged or gone. */
  rows_set_aside: Count;
  damaged_tails: number;
  /** Files that expired or were merged and wait for questions, and their octets. */
  pending_files: number;
  pending_octets: Count;
  /** Statistics in the folder of the archive, the finest steps first. */
  statistics: { step_secs: number; keep_secs: number; octets: Count }[];
  free_octets: Count;
  retention?: string | null;
}

export interface SeriesNames {
  families: { name: string; metrics: string[] }[];
  steps_ms: number[];
  /** Keys of the family that was asked for. */
  keys: string[];
}

/** A series of each metric; values are sums over a step. */
export interface SeriesAnswer {
  step_ms: number;
  times: number[];
  series: { name: string; values: (number | null)[] }[];
  /** Files of which something cannot be read, each with a sentence. */
  damaged?: string[];
}

/** One event of `/live`, about one second. */
export interface Live {
  time_ms: number;
  flows_per_s: number;
  packets_per_s: number;
  bytes_per_s: number;
  exporters: LiveExporter[];
  /** Null where another process collects. */
  drops: number | null;
  /** Null where there are no watches. */
  reports_open: number | null;
}

export interface LiveExporter {
  /** `other` for all that have no place of their own. */
  exporter: string;
  flows_per_s: number;
  packets_per_s: number;
  bytes_per_s: number;
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
