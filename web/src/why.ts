// Why a flow is in a list: each part of the filter, and the values of the flow that it reads.
import type { Cell, Column } from "./api.ts";
import { conjuncts, wordsOf } from "./filterText.ts";

export interface Reason {
  term: string;
  values: { column: Column; value: Cell }[];
}

/** Words that read more than one column when no direction stands before them. */
const UNDIRECTED: Record<string, string[]> = {
  ip: ["src_addr", "dst_addr"],
  net: ["src_addr", "dst_addr"],
  host: ["src_addr", "dst_addr"],
  port: ["src_port", "dst_port"],
  as: ["src_as", "dst_as"],
  if: ["in_if", "out_if"],
  vlan: ["src_vlan", "dst_vlan"],
  flags: ["tcp_flags"],
  duration: ["start", "end"],
  "first seen": ["start"],
  "last seen": ["end"],
  bps: ["bytes", "start", "end"],
  pps: ["packets", "start", "end"],
  bpp: ["bytes", "packets"],
  "icmp type": ["protocol", "icmp_type", "icmp_type_code", "dst_port"],
  "icmp code": ["protocol", "icmp_code", "icmp_type_code", "dst_port"],
};

/** One entry for each part of the filter. `row` has a value for each of `columns`. */
export function reasons(filter: string, columns: Column[], row: Record<string, Cell>): Reason[] {
  return conjuncts(filter).map((term) => {
    const names = new Set(columnsOf(term, columns));
    const values = columns.filter((column) => names.has(column.name)).map((column) => ({ column, value: row[column.name] ?? null }));
    return { term, values };
  });
}

function columnsOf(term: string, columns: Column[]): string[] {
  const text = ` ${term.toLowerCase().replace(/[()!]/g, " ").replace(/\s+/g, " ")} `;
  const out: string[] = [];
  for (const column of columns) {
    const isRead = wordsOf(column).some((words) => {
      const first = words.toLowerCase();
      return text.includes(` ${first} `) || (first.endsWith(" ip") && text.includes(` ${first.slice(0, -2)}net `));
    });
    if (isRead) out.push(column.name);
  }
  for (const [word, names] of Object.entries(UNDIRECTED)) {
    const at = text.indexOf(` ${word} `);
    if (at < 0) continue;
    const before = text.slice(0, at).trim().split(" ").pop() ?? "";
    if (!["src", "dst", "in", "out", "next", "prev", "router", "nat", "bgp"].includes(before)) out.push(...names);
  }
  return out;
}
