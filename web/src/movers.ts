// Top movers: what differs most from the same hour of the days before.
import type { Cell, TableAnswer } from "./api.ts";
import { request, type RequestOptions } from "./client.ts";
import { toNumber } from "./units.ts";

export interface Mover {
  name: string;
  now: number;
  /** Median of the same hour on the days before; null when no day is known. */
  usual: number | null;
  /** Not among the largest on any of these days: what is usual is at most `usual`. */
  isBound: boolean;
}

export const DAYS = 7;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** So many of the largest are compared; further ones are too small to move much. */
const LIMIT = 50;

export function median(values: number[]): number | null {
  if (values.length === 0) return null;
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? (sorted[middle] ?? 0) : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2;
}

/** A day: values by name, and the smallest that its list has when the list was cut off. */
export interface Day {
  values: Map<string, number>;
  floor: number;
}

/** The largest changes first. A name that a cut list of a day does not have counts as the smallest value of that list. */
export function movers(now: Map<string, number>, days: Day[], limit: number): Mover[] {
  const known = days.filter((day) => day.values.size > 0);
  const out = [...now].map(([name, value]): Mover => {
    const usual = median(known.map((day) => day.values.get(name) ?? day.floor));
    return { name, now: value, usual, isBound: known.length > 0 && known.every((day) => !day.values.has(name)) };
  });
  return out.sort((a, b) => Math.abs(b.now - (b.usual ?? 0)) - Math.abs(a.now - (a.usual ?? 0))).slice(0, limit);
}

function dayOf(answer: TableAnswer, by: string): Day {
  const nameAt = answer.columns.findIndex((column) => column.name === by);
  const at = answer.columns.findIndex((column) => column.name === "bytes");
  const cell = (row: Cell[]) => toNumber((row[at] ?? 0) as number | string);
  const values = new Map(answer.rows.map((row) => [String(row[nameAt] ?? "not reported"), cell(row)]));
  const last = answer.rows.at(-1);
  return { values, floor: answer.rows.length >= LIMIT && last ? cell(last) : 0 };
}

export interface Movers {
  list: Mover[];
  /** Days of which something is known. */
  days: number;
  untilMs: number;
  answer: TableAnswer;
}

/** Asks day after day, not all at once: the server has others to answer. Hours that have passed come from its cache. */
export async function askMovers(by: string, options: RequestOptions): Promise<Movers> {
  // Whole minutes, so that the same question is asked again within a minute.
  const untilMs = Math.floor(Date.now() / 60_000) * 60_000;
  const ask = (daysAgo: number) =>
    request<TableAnswer>(
      "rank",
      { by, measure: "bytes", limit: LIMIT, from: untilMs - daysAgo * DAY_MS - HOUR_MS, until: untilMs - daysAgo * DAY_MS },
      options,
    );
  const answer = await ask(0);
  const days: Day[] = [];
  for (let day = 1; day <= DAYS; day += 1) days.push(dayOf(await ask(day), by));
  return { list: movers(dayOf(answer, by).values, days, 10), days: days.filter((day) => day.values.size > 0).length, untilMs, answer };
}
