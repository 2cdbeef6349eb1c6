// What is said next to every number: whether the books show anything missing in its time.
import type { Completeness } from "./api.ts";
import { exact, percent, toNumber } from "./units.ts";

export type Level = "complete" | "incomplete" | "unknown";

/** Nothing was said: that is not the same as complete. */
export function levelOf(completeness: Completeness | null | undefined): Level {
  return completeness?.verdict ?? "unknown";
}

/** The worst of several: of an exporter with several Observation Domains. */
export function worst(all: Completeness[]): Completeness | null {
  const rank: Record<Level, number> = { incomplete: 0, unknown: 1, complete: 2 };
  return all.toSorted((a, b) => rank[a.verdict] - rank[b.verdict] || (a.share ?? 1) - (b.share ?? 1))[0] ?? null;
}

/** Short, for a badge: `complete`, `99.4 %`, `unknown`. */
export function badge(completeness: Completeness | null | undefined): string {
  if (!completeness || completeness.verdict === "unknown") return "completeness unknown";
  if (completeness.verdict === "complete") return "complete";
  return completeness.share === null ? "incomplete" : `${percent(completeness.share)} complete`;
}

/** The sentence of the server, or one made of the numbers when it has none. */
export function sentence(completeness: Completeness | null | undefined): string {
  if (!completeness) return "the server said nothing about completeness";
  if (completeness.sentence !== "") return completeness.sentence;
  if (completeness.verdict === "complete") return "the books show nothing missing";
  if (completeness.verdict === "unknown") return "exporters of this time give no sequence numbers, so losses cannot be seen";
  const parts: string[] = [];
  const add = (count: number | string, one: string, many: string) => {
    if (toNumber(count) > 0) parts.push(`${exact(count)} ${toNumber(count) === 1 ? one : many}`);
  };
  add(completeness.lost_records, "record lost on the way", "records lost on the way");
  add(completeness.lost_datagrams, "datagram lost on the way", "datagrams lost on the way");
  add(completeness.dropped_datagrams, "datagram dropped here", "datagrams dropped here");
  return parts.length === 0 ? "the books show something missing" : parts.join(", ");
}
