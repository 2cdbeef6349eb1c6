// Countries of flows: which end of them a question is about, the table by country, and what a map shows of it. The codes are those
// that were kept with the flows; a flow of which none was kept has none.
import type { AnswerColumn, Cell, Count, Measure, TableAnswer } from "./api.ts";
import type { Ends, Question } from "./question.ts";
import { toNumber } from "./units.ts";

/** What a map is of, as headings have it. */
export const COUNTRIES_OF: Record<Ends, string> = { src: "country of the source", dst: "country of the destination", either: "country of either end" };
/** Countries, and pairs of them: more than there are of the first, and as many as the server gives of the second. */
export const ROWS_MAX: Record<Ends, number> = { src: 1000, dst: 1000, either: 10_000 };

const COLUMNS: Record<Ends, string[]> = { src: ["src_country"], dst: ["dst_country"], either: ["src_country", "dst_country"] };
/** Of either end there is no column of flows. */
const EITHER: AnswerColumn = { name: "country", label: "country", type: "text", description: "ISO code of a country that the flow has at one of its ends, or at both." };
const COUNTERS = ["flows", "packets", "bytes"] as const;

export function columnsOf(ends: Ends): string[] {
  return COLUMNS[ends];
}

/** The end that was chosen, or that the dimensions name; without any, the source. The dimensions are of the other pictures, too. */
export function endsOf({ by, ends }: Pick<Question, "by" | "ends">): Ends {
  if (ends !== "") return ends;
  if (!by.includes("dst_country")) return "src";
  return by.includes("src_country") ? "either" : "dst";
}

const names = new Intl.DisplayNames("en", { type: "region" });

/** `Germany`; empty for what is no code of a country. */
export function countryName(code: string): string {
  if (!/^[A-Za-z]{2}$/.test(code)) return "";
  const name = names.of(code.toUpperCase()) ?? "";
  return name === code.toUpperCase() ? "" : name;
}

type Sums = Record<(typeof COUNTERS)[number], bigint>;

/**
 * A table by country of an answer of `/group` that is by the columns of these ends: a row of each country, and one of what has
 * none. Of either end, a flow counts once for each country that it has, so that the shares may be more than all together.
 */
export function byCountry(answer: TableAnswer, ends: Ends, measure: Measure): TableAnswer {
  const keys = COLUMNS[ends].map((name) => answer.columns.findIndex((column) => column.name === name));
  const counters = COUNTERS.map((name) => answer.columns.findIndex((column) => column.name === name));
  const sums = new Map<string, Sums>();
  for (const row of answer.rows) {
    const codes = keys.map((at) => String(row[at] ?? "").toUpperCase()).filter((code) => code !== "");
    for (const code of codes.length === 0 ? [""] : new Set(codes)) {
      const found = sums.get(code) ?? { flows: 0n, packets: 0n, bytes: 0n };
      COUNTERS.forEach((name, at) => (found[name] += BigInt((row[counters[at] ?? -1] as Count | null | undefined) ?? 0)));
      sums.set(code, found);
    }
  }
  const all = toNumber(answer.totals?.[measure]);
  const sorted = [...sums].sort(([, a], [, b]) => (a[measure] < b[measure] ? 1 : a[measure] > b[measure] ? -1 : 0));
  const country = ends === "either" ? EITHER : (answer.columns[keys[0] ?? -1] ?? EITHER);
  return {
    ...answer,
    columns: [country, ...counters.flatMap((at) => answer.columns[at] ?? []), { name: `${measure}_share`, label: "share", type: "number", unit: "share" }],
    rows: sorted.map(([code, of]): Cell[] => [code === "" ? null : code, ...COUNTERS.map((name) => count(of[name])), all > 0 ? Number(of[measure]) / all : null]),
  };
}

/** As the server writes counters. */
function count(value: bigint): Count {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : String(value);
}

export interface Place {
  code: string;
  /** The code itself where it has no name. */
  name: string;
  value: number;
  /** Of all that matches; null when that is not known. */
  share: number | null;
}

export interface Places {
  /** The largest first. */
  known: Place[];
  /** What has no country. */
  unknown: Omit<Place, "code" | "name"> | null;
  /** The column of the answer. */
  column: AnswerColumn;
}

/** What a map shows of a table by country; null when it is a table of something else, such as that of the question before. */
export function placesOf(answer: TableAnswer | null, ends: Ends, measure: Measure): Places | null {
  const column = answer?.columns[0];
  const at = answer?.columns.findIndex((each) => each.name === measure) ?? -1;
  const shareAt = answer?.columns.findIndex((each) => each.name === `${measure}_share`) ?? -1;
  if (!answer || !column || column.name !== (ends === "either" ? EITHER.name : COLUMNS[ends][0]) || at < 0 || shareAt < 0) return null;
  const places: Places = { known: [], unknown: null, column };
  for (const row of answer.rows) {
    const share = row[shareAt];
    const of = { value: toNumber(row[at] as Count), share: typeof share === "number" ? share : null };
    if (row[0] === null) places.unknown = of;
    else places.known.push({ ...of, code: String(row[0]), name: countryName(String(row[0])) || String(row[0]) });
  }
  return places;
}

/** Decades that the colours of a map tell apart: countries differ by powers of ten. */
export const DECADES = 4;

/** Where a value is between the two colours of a map, from 0 to 1, by its logarithm. */
export function strength(value: number, max: number): number {
  if (!(value > 0) || !(max > 0)) return 0;
  return Math.min(1, Math.max(0, 1 + Math.log10(value / max) / DECADES));
}
