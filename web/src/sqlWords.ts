// Words of SQL that are completed: columns and tables of the archive, functions, and the words of statements.
import type { Column, Completion } from "./api.ts";

const TABLES: [string, string][] = [
  ["flows", "flows of the archive"],
  ["exporter_books", "what was counted, by exporter and minute"],
  ["exporter_options", "names of interfaces, samplers and others, as exporters report them"],
  ["interface_counters", "counters of interfaces, by sFlow"],
  ["host_counters", "counters of hosts, by sFlow"],
  ["exporter_sequences", "the last sequence numbers of exporters"],
  ["series", "statistics over time: name a step, such as step = 60"],
  ["reports", "what watches reported"],
];
const FUNCTIONS: [string, string][] = [
  ["TUMBLE(flows, received, INTERVAL '1' MINUTE)", "windows that follow each other"],
  ["HOP(flows, received, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)", "windows that overlap"],
  ["count(*)", "how many rows"],
  ["count(DISTINCT ", "how many different values"],
  ["sum(", "the sum"],
  ["country(", "country of an address"],
  ["asn(", "AS of an address"],
  ["label(", "label of an address"],
  ["if_name(", "name of an interface: if_name(exporter, in_if)"],
  ["element(", "an Information Element without a column: element(elements, 'NAME')"],
];
const WORDS = ["SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "AS", "DESC", "INTERVAL '1 hour'", "QUALIFY", "WITH"];
const ITEMS_MAX = 10;
/** One letter has too many continuations to be of help. */
const LETTERS_MIN = 2;

export interface WordAt {
  begin: number;
  word: string;
}

/** The word before the cursor; null inside of a text between quotes, where nothing is completed. */
export function wordAt(text: string, cursor: number): WordAt | null {
  const line = text.slice(text.lastIndexOf("\n", cursor - 1) + 1, cursor);
  if ((line.split("'").length - 1) % 2 === 1 || /--/.test(line)) return null;
  const word = /[a-z_][a-z0-9_]*$/i.exec(line)?.[0] ?? "";
  return { begin: cursor - word.length, word };
}

/** What the word may become: what begins with it first, then columns that have it inside. `isAsked` lists all without a word too. */
export function completions(text: string, cursor: number, columns: Column[], isAsked: boolean): Completion[] {
  const at = wordAt(text, cursor);
  if (!at || (!isAsked && at.word.length < LETTERS_MIN)) return [];
  const word = at.word.toLowerCase();
  const all: Completion[] = [
    ...columns.map((column) => ({ text: column.name, label: column.name, description: column.description ?? column.label })),
    ...TABLES.map(([name, about]) => ({ text: name, label: name, description: about })),
    ...FUNCTIONS.map(([call, about]) => ({ text: call, label: call, description: about })),
    ...WORDS.map((each) => ({ text: each, label: each, description: "" })),
  ];
  // a column may have the name of a table: both become the same text
  const words = [...new Map(all.map((each) => [each.text, each] as const)).values()];
  const begins = words.filter((each) => each.text.toLowerCase().startsWith(word));
  const inside = word === "" ? [] : words.filter((each) => !begins.includes(each) && each.text.toLowerCase().includes(`_${word}`));
  return [...begins, ...inside].filter((each) => isAsked || each.text.toLowerCase() !== word).slice(0, ITEMS_MAX);
}
