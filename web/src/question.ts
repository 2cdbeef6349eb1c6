// A question and its text in the address. The text is readable and stable: `filter=src+net+192.0.2.0/24&from=-1h&by=dst_port`.
// What has its usual value is left out; what is not understood is reported, not guessed.
import type { Measure } from "./api.ts";

export type View = "stacked" | "lines" | "heatmap" | "sankey" | "map" | "table";

/** Whose country a map shows: that of the source, of the destination, or of any of the two. */
export type Ends = "src" | "dst" | "either";

export interface Question {
  filter: string;
  from: string;
  until: string;
  by: string[];
  measure: Measure;
  top: number;
  view: View;
  /** Of a map; empty for what `by` names. */
  ends: Ends | "";
  /** Compared with the time of the same length directly before. */
  previous: boolean;
  /** Packets and bytes times the sampling interval of each flow, for the filter too. */
  scaled: boolean;
}

export const VIEWS: View[] = ["stacked", "lines", "heatmap", "sankey", "map", "table"];
export const ENDS: Ends[] = ["src", "dst", "either"];
export const MEASURES: Measure[] = ["bytes", "packets", "flows"];
export const TOP_MAX = 1000;
export const DIMENSIONS_MAX = 4;

export const USUAL: Question = {
  filter: "",
  from: "-1h",
  until: "now",
  by: ["src_addr"],
  measure: "bytes",
  top: 10,
  view: "stacked",
  ends: "",
  previous: false,
  scaled: false,
};

/** Encodes only what would end or change the text; a blank is `+`. */
export function encode(text: string): string {
  return text.replace(/[%+&#"<>`\\^{}|\u0000-\u001f]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`).replace(/ /g, "+");
}

export function decode(text: string): string {
  const blanks = text.replace(/\+/g, " ");
  try {
    return decodeURIComponent(blanks);
  } catch {
    return blanks;
  }
}

export type Parameters = Map<string, string>;

export function parseParameters(text: string): Parameters {
  const out: Parameters = new Map();
  for (const pair of text.split("&")) {
    if (pair === "") continue;
    const at = pair.indexOf("=");
    out.set(decode(at < 0 ? pair : pair.slice(0, at)), at < 0 ? "" : decode(pair.slice(at + 1)));
  }
  return out;
}

export function printParameters(parameters: Iterable<[string, string]>): string {
  return [...parameters].map(([name, value]) => `${encode(name)}=${encode(value)}`).join("&");
}

export interface Read {
  question: Question;
  /** Parts of the text that are not understood, with the reason. */
  ignored: string[];
}

const KNOWN = new Set(["filter", "from", "until", "by", "measure", "top", "view", "ends", "previous", "scaled"]);

/** The question of a text; `extra` are parameters that the page reads itself. */
export function questionFrom(parameters: Parameters, extra: string[] = []): Read {
  const ignored: string[] = [];
  for (const name of parameters.keys()) {
    if (!KNOWN.has(name) && !extra.includes(name)) ignored.push(`${name}: not known here`);
  }
  const oneOf = <T extends string>(name: string, allowed: readonly T[], usual: T): T => {
    const value = parameters.get(name);
    if (value === undefined) return usual;
    const found = allowed.find((each) => each === value);
    if (found === undefined) ignored.push(`${name}=${value}: must be one of ${allowed.join(", ")}`);
    return found ?? usual;
  };
  const topText = parameters.get("top");
  let top = USUAL.top;
  if (topText !== undefined) {
    const value = Number(topText);
    if (Number.isInteger(value) && value >= 1 && value <= TOP_MAX) top = value;
    else ignored.push(`top=${topText}: must be a number from 1 to ${TOP_MAX}`);
  }
  const byText = parameters.get("by");
  let by = byText === undefined ? USUAL.by : byText.split(",").map((each) => each.trim()).filter((each) => each !== "");
  if (by.length > DIMENSIONS_MAX) {
    ignored.push(`by: only the first ${DIMENSIONS_MAX} columns are used`);
    by = by.slice(0, DIMENSIONS_MAX);
  }
  const question: Question = {
    filter: parameters.get("filter") ?? USUAL.filter,
    from: parameters.get("from") ?? USUAL.from,
    until: parameters.get("until") ?? USUAL.until,
    by: [...new Set(by)],
    measure: oneOf("measure", MEASURES, USUAL.measure),
    top,
    view: oneOf("view", VIEWS, USUAL.view),
    ends: oneOf<Ends | "">("ends", ENDS, USUAL.ends),
    previous: oneOf("previous", ["yes", "no"] as const, "no") === "yes",
    scaled: oneOf("scaled", ["yes", "no"] as const, "no") === "yes",
  };
  return { question, ignored };
}

/** The text of a question, without what has its usual value. */
export function questionText(question: Question): string {
  const out: [string, string][] = [];
  const add = (name: string, value: string, usual: string) => {
    if (value !== usual) out.push([name, value]);
  };
  add("filter", question.filter, USUAL.filter);
  add("from", question.from, USUAL.from);
  add("until", question.until, USUAL.until);
  add("by", question.by.join(","), USUAL.by.join(","));
  add("measure", question.measure, USUAL.measure);
  add("top", String(question.top), String(USUAL.top));
  add("view", question.view, USUAL.view);
  add("ends", question.ends, USUAL.ends);
  add("previous", question.previous ? "yes" : "no", "no");
  add("scaled", question.scaled ? "yes" : "no", "no");
  return printParameters(out);
}

/** The address of a page with a question. */
export function addressOf(page: string, question: Partial<Question>): string {
  const text = questionText({ ...USUAL, ...question });
  return `#/${page}${text === "" ? "" : `?${text}`}`;
}

/** What is wrong with a panel's question is said; what it means is as in an address. */
export function questionOfText(text: string): Read {
  return questionFrom(parseParameters(text.trim().replace(/^.*#\/explore\??/, "")));
}
