// Answers of the fixture server to questions about flows, computed from its test data.
import type { Cell, Completeness, Sampling, TableAnswer, TimelineAnswer } from "../src/api.ts";
import { parseTime } from "../src/times.ts";
import { COLUMNS, type Flow, makeFlows, matches } from "./fixture-data.ts";

export const INCOMPLETE: Completeness = {
  verdict: "incomplete",
  sentence: "99.43 % complete: 114 records lost on the way",
  lost_records: 114,
  lost_datagrams: 6,
  dropped_datagrams: 0,
  share: 0.9943,
};
export const COMPLETE: Completeness = { verdict: "complete", sentence: "the books show nothing missing", lost_records: 0, lost_datagrams: 0, dropped_datagrams: 0, share: 1 };
export const UNKNOWN: Completeness = { verdict: "unknown", sentence: "the exporter gives no sequence numbers", lost_records: 0, lost_datagrams: 0, dropped_datagrams: 0, share: null };

/** Flows of port 443 are taken to be sampled, one packet in 100, all others not. */
const INTERVAL = 100;
const isSampled = (flow: Flow) => flow.dst_port === 443;

const COUNTERS = ["flows", "packets", "bytes"] as const;

export type Parameters = URLSearchParams;

export class Answers {
  readonly nowMs: number;
  readonly flows: Flow[];

  constructor(nowMs: number) {
    this.nowMs = nowMs;
    this.flows = makeFlows(nowMs);
  }

  range(parameters: Parameters): [number, number] {
    const from = parseTime(parameters.get("from") ?? "-1h", this.nowMs) ?? 0;
    return [from, parseTime(parameters.get("until") ?? "now", this.nowMs) ?? this.nowMs];
  }

  select(parameters: Parameters): Flow[] {
    const [from, until] = this.range(parameters);
    const filter = parameters.get("filter") ?? "";
    const found = this.flows.filter((flow) => Number(flow.start) >= from && Number(flow.start) <= until && matches(flow, filter));
    if (parameters.get("scaled") !== "true") return found;
    return found.map((flow) => (isSampled(flow) ? { ...flow, packets: Number(flow.packets) * INTERVAL, bytes: Number(flow.bytes) * INTERVAL } : flow));
  }

  /** As the server says it: a mark would be on every page, so flows that are not scaled are said to be of no sampling. */
  sampling(parameters: Parameters, found: Flow[]): Sampling {
    const isScaled = parameters.get("scaled") === "true";
    const count = isScaled ? found.filter(isSampled).length : 0;
    return { is_scaled: isScaled, by: isScaled ? "reported" : "none", has_sampled: count > 0, sampled_flows: count, unknown_flows: 0 };
  }

  table(parameters: Parameters): TableAnswer {
    const asked = parameters.get("columns") ?? "start,src_addr,dst_addr,bytes";
    const names = asked === "*" ? COLUMNS.map((column) => column.name) : asked.split(",");
    const order = parameters.get("order") ?? "start";
    const name = order.replace(/^-/, "");
    const sign = order.startsWith("-") ? -1 : 1;
    const found = this.select(parameters).sort((a, b) => sign * compare(a[name] ?? null, b[name] ?? null));
    const offset = Number(parameters.get("offset") ?? 0);
    const rows = found.slice(offset, offset + Number(parameters.get("limit") ?? 200));
    const columns = names.map((each) => COLUMNS.find((column) => column.name === each)).filter((column) => column !== undefined);
    return { columns, rows: rows.map((flow) => columns.map((column) => flow[column.name] ?? null)), totals: parameters.get("totals") === "true" ? totalsOf(found) : null, completeness: INCOMPLETE, position: 7, took_ms: 12.25, is_cached: false, is_truncated: offset + rows.length < found.length };
  }

  /** Conversations: two flows whose ends are each other's. */
  biflows(parameters: Parameters): TableAnswer {
    const pairs = new Map<string, { there: Flow[]; back: Flow[] }>();
    const end = (flow: Flow, side: "src" | "dst") => `${flow[`${side}_addr`]} ${flow[`${side}_port`]}`;
    for (const flow of this.select(parameters)) {
      const [from, to] = [end(flow, "src"), end(flow, "dst")];
      const back = pairs.get(`${to} ${from}`);
      if (back) back.back.push(flow);
      else pairs.set(`${from} ${to}`, { there: [...(pairs.get(`${from} ${to}`)?.there ?? []), flow], back: [] });
    }
    const names = ["start", "end", "protocol", "src_addr", "src_port", "dst_addr", "dst_port"];
    const number = (name: string) => ({ name, label: name.replace("_", " "), type: "number" as const, unit: name.startsWith("bytes") ? "octets" : "packets" });
    const columns = [...names.map((name) => COLUMNS.find((column) => column.name === name)!), number("packets"), number("packets_reverse"), number("bytes"), number("bytes_reverse")];
    const found = [...pairs.values()].map(({ there, back }): Cell[] => {
      const [one, other] = [totalsOf(there), totalsOf(back)];
      return [...names.map((name) => there[0]?.[name] ?? null), one.packets, back.length > 0 ? other.packets : null, one.bytes, back.length > 0 ? other.bytes : null];
    });
    const name = (parameters.get("order") ?? "-start").replace("-", "");
    const at = columns.findIndex((column) => column.name === name);
    found.sort((a, b) => compare(b[at] ?? null, a[at] ?? null));
    const offset = Number(parameters.get("offset") ?? 0);
    const rows = found.slice(offset, offset + Number(parameters.get("limit") ?? 200));
    return { columns, rows, totals: null, completeness: INCOMPLETE, position: 7, took_ms: 14, is_cached: false, is_truncated: offset + rows.length < found.length };
  }

  group(parameters: Parameters): TableAnswer {
    const by = (parameters.get("by") ?? "src_addr").split(",");
    const measure = parameters.get("measure") ?? "bytes";
    const found = this.select(parameters);
    const groups = groupBy(found, by);
    const totals = totalsOf(found);
    const rows = [...groups.values()]
      .map((flows) => ({ first: flows[0] as Flow, sums: totalsOf(flows) }))
      .sort((a, b) => Number(b.sums[measure as "bytes"]) - Number(a.sums[measure as "bytes"]))
      .slice(0, Number(parameters.get("limit") ?? 10))
      .map(({ first, sums }): Cell[] => [first.start ?? null, first.end ?? null, ...by.map((name) => first[name] ?? null), sums.flows, sums.packets, sums.bytes, ...COUNTERS.map((name) => Number(sums[name]) / Math.max(1, Number(totals[name])))]);
    const numbers = ["flows", "packets", "bytes"].map((name) => ({ name, label: name, type: "number" as const, unit: name === "bytes" ? "octets" : name }));
    const dimensions = by.map((name) => COLUMNS.find((column) => column.name === name) ?? { name, label: name, type: "text" as const });
    const shares = COUNTERS.map((name) => ({ name: `${name}_share`, label: `Share of ${name}`, type: "number" as const }));
    const times = COLUMNS.filter((column) => column.name === "start" || column.name === "end");
    const columns = [...times, ...dimensions, ...numbers, ...shares];
    return { columns, rows, totals, sampling: this.sampling(parameters, found), completeness: INCOMPLETE, position: 7, took_ms: 34, is_cached: false };
  }

  timeline(parameters: Parameters): TimelineAnswer {
    const [from, until] = this.range(parameters);
    const measure = parameters.get("measure") ?? "bytes";
    const by = parameters.get("by");
    const points = Math.min(Number(parameters.get("points") ?? 300), 120);
    const step = Math.max(1000, Math.ceil((until - from) / points / 1000) * 1000);
    const first = Math.floor(from / step) * step;
    const times = Array.from({ length: Math.ceil((until - first) / step) }, (_, at) => first + at * step);
    const found = this.select(parameters);
    const groups = by ? [...groupBy(found, [by])].sort((a, b) => sumOf(b[1], measure) - sumOf(a[1], measure)) : [["all", found] as [string, Flow[]]];
    const top = Number(parameters.get("top") ?? 8);
    const series = groups.slice(0, top).map(([name, flows]) => ({ name, values: line(flows, times, first, step, measure) }));
    const rest = groups.slice(top).flatMap(([, flows]) => flows);
    if (rest.length > 0) series.push({ name: "other", values: line(rest, times, first, step, measure) });
    // A gap: of these steps nothing is known.
    if (times.length > 60) for (const each of series) each.values[20] = each.values[21] = null;
    return { step_ms: step, times, series, unit: measure === "bytes" ? "bit/s" : `${measure}/s`, sampling: this.sampling(parameters, found), completeness: INCOMPLETE, took_ms: 20 };
  }

  sankey(parameters: Parameters) {
    const by = (parameters.get("by") ?? "").split(",");
    const { rows } = this.group(parameters);
    const at = by.length + 2 + ["flows", "packets", "bytes"].indexOf(parameters.get("measure") ?? "bytes");
    const nodes = new Map<string, { id: string; column: string; name: string }>();
    const links = new Map<string, { source: string; target: string; value: number }>();
    for (const row of rows) {
      const ids = by.map((column, place) => {
        const value = row[place + 2];
        const id = `${place} ${value}`;
        nodes.set(id, { id, column, name: String(value ?? "") });
        return id;
      });
      for (let place = 0; place + 1 < ids.length; place += 1) {
        const [source, target] = [ids[place] as string, ids[place + 1] as string];
        const link = links.get(`${source} ${target}`) ?? { source, target, value: 0 };
        link.value += Number(row[at]);
        links.set(`${source} ${target}`, link);
      }
    }
    return { nodes: [...nodes.values()], links: [...links.values()], sampling: { ...this.sampling(parameters, this.select(parameters)), sampled_flows: null, unknown_flows: null }, completeness: INCOMPLETE, took_ms: 9 };
  }
}

function compare(a: Cell, b: Cell): number {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

function totalsOf(flows: Flow[]) {
  return { flows: flows.length, packets: sumOf(flows, "packets"), bytes: sumOf(flows, "bytes") };
}

function sumOf(flows: Flow[], measure: string): number {
  return measure === "flows" ? flows.length : flows.reduce((sum, flow) => sum + Number(flow[measure]), 0);
}

function groupBy(flows: Flow[], by: string[]): Map<string, Flow[]> {
  const groups = new Map<string, Flow[]>();
  for (const flow of flows) {
    const key = by.map((name) => flow[name] ?? "").join(" ");
    const group = groups.get(key);
    if (group) group.push(flow);
    else groups.set(key, [flow]);
  }
  return groups;
}

function line(flows: Flow[], times: number[], first: number, step: number, measure: string): (number | null)[] {
  const values: (number | null)[] = times.map(() => 0);
  for (const flow of flows) {
    const at = Math.floor((Number(flow.start) - first) / step);
    const amount = measure === "flows" ? 1 : Number(flow[measure]) * (measure === "bytes" ? 8 : 1);
    if (at >= 0 && at < values.length) values[at] = (values[at] ?? 0) + (amount * 1000) / step;
  }
  return values;
}
