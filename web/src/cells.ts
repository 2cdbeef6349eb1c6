// How a value of a table is shown: text, whether it is right-aligned, and where a click leads.
import type { AnswerColumn, Cell, TableAnswer } from "./api.ts";
import { precise } from "./times.ts";
import { exact, octets, percent, plain, short, withUnit } from "./units.ts";

export interface Shown {
  text: string;
  /** All of it, for a tooltip; the text when it is the same. */
  full: string;
}

const PROTOCOLS: Record<string, string> = {
  "1": "ICMP", "2": "IGMP", "4": "IPIP", "6": "TCP", "17": "UDP", "41": "IPv6", "47": "GRE", "50": "ESP", "51": "AH",
  "58": "ICMPv6", "88": "EIGRP", "89": "OSPF", "103": "PIM", "112": "VRRP", "115": "L2TP", "132": "SCTP",
};
const FLAGS = "CEUAPRSF";
const IDENTIFIERS = /(_port|_as|_if|_vlan|_id|_type|_code|_mask|_vrf|_tos|^tos|^as|^port|_domain|version|protocol|direction|reason|status)$/;

export function isNumeric(column: AnswerColumn): boolean {
  return column.type === "number" && !isProtocol(column);
}

/** Shown by its name. */
function isProtocol(column: AnswerColumn): boolean {
  return /^proto(col)?$/.test(column.name);
}

/**
 * The columns that a page shows of `/rank` and `/group`, in its order: what is grouped by, the counters, and the share of the
 * measure. The answer has more, and in an order of its own.
 */
export function ranked(answer: TableAnswer, by: string[], measure: string): TableAnswer {
  const names = [...by, "flows", "packets", "bytes", `${measure}_share`];
  const places = names.map((name) => answer.columns.findIndex((column) => column.name === name)).filter((at) => at >= 0);
  const columns = places.map((at) => answer.columns[at] as AnswerColumn);
  const shown = columns.map((column) => (column.name.endsWith("_share") ? { ...column, label: "share", unit: "share" } : column));
  return { ...answer, columns: shown, rows: answer.rows.map((row) => places.map((at) => row[at] ?? null)) };
}

/** A number that names something, such as a port, is never rounded or given a prefix. */
export function isIdentifier(column: AnswerColumn): boolean {
  return column.type === "number" && !column.unit && IDENTIFIERS.test(column.name);
}

export function flagsText(value: number): string {
  const low = value & 0xff;
  return [...FLAGS].map((letter, at) => (low & (0x80 >> at) ? letter : ".")).join("");
}

export function show(cell: Cell | undefined, column: AnswerColumn): Shown {
  if (cell === null || cell === undefined) return { text: "–", full: "not reported by the exporter" };
  if (column.type === "time" && typeof cell === "number") return { text: precise(cell), full: precise(cell) };
  if (column.type === "flags" && typeof cell === "number") return { text: flagsText(cell), full: `0x${cell.toString(16)}` };
  if (column.type === "bool") return { text: cell ? "yes" : "no", full: cell ? "yes" : "no" };
  if (isProtocol(column) && /^\d+$/.test(String(cell))) {
    const name = PROTOCOLS[String(cell)];
    return name ? { text: name, full: `${name}, protocol ${cell}` } : { text: String(cell), full: `protocol ${cell}` };
  }
  if (column.type === "number") return showNumber(cell, column);
  const text = plain(cell);
  return { text, full: text };
}

function showNumber(cell: Cell, column: AnswerColumn): Shown {
  const text = plain(cell);
  const value = Number(cell);
  if (!Number.isFinite(value)) return { text, full: text };
  if (column.unit === "share") return { text: percent(value), full: percent(value) };
  if (isIdentifier(column)) return { text, full: text };
  const full = Number.isInteger(value) ? exact(text) : text;
  if (column.unit === "octets" || column.unit === "bytes") return { text: octets(text), full: `${full} octets` };
  if (column.unit === "ms") return { text: full, full: `${full} ms` };
  if (column.unit && /\/s$/.test(column.unit)) return { text: withUnit(value, column.unit), full: `${full} ${column.unit}` };
  if (!Number.isInteger(value)) return { text: Math.abs(value) >= 1000 ? short(value) : String(Number(value.toPrecision(6))), full };
  return { text: value < 1_000_000 ? full : short(value), full: column.unit ? `${full} ${column.unit}` : full };
}

/** Comma separated, RFC 4180; times in UTC. */
export function csv(columns: AnswerColumn[], rows: Cell[][]): string {
  const quote = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
  // A spreadsheet runs what begins like a formula; names come from the network.
  const safe = (text: string) => (/^[=+@\t\r]|^-(?!\d)/.test(text) ? `'${text}` : text);
  const line = (cells: string[]) => `${cells.map((cell) => quote(safe(cell))).join(",")}\r\n`;
  const value = (cell: Cell, column: AnswerColumn | undefined) =>
    column?.type === "time" && typeof cell === "number" ? new Date(cell).toISOString() : plain(cell);
  return line(columns.map((column) => column.name)) + rows.map((row) => line(row.map((cell, at) => value(cell, columns[at])))).join("");
}
