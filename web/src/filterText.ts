// Filters made by a click: a term for a value of a column, and how it joins what is there.
import type { Cell, Column } from "./api.ts";

/** Words of the columns that a click is most likely on, for when the server does not say them. */
const WORDS: Record<string, string> = {
  src_addr: "src ip",
  dst_addr: "dst ip",
  next_hop: "next ip",
  bgp_next_hop: "bgp next ip",
  exporter: "router ip",
  src_port: "src port",
  dst_port: "dst port",
  protocol: "proto",
  in_if: "in if",
  out_if: "out if",
  src_as: "src as",
  dst_as: "dst as",
  src_mask: "src mask",
  dst_mask: "dst mask",
  src_vlan: "src vlan",
  dst_vlan: "dst vlan",
  tos: "tos",
  bytes: "bytes",
  packets: "packets",
  observation_domain: "observation domain id",
  // Of either end: no column of flows, and a column of the map's table.
  country: "country",
  src_country: "src country",
  dst_country: "dst country",
};

/** The words that read a column, the one that reads it alone first: `src mac` before `mac`, which reads others too. */
export function wordsOf(column: Pick<Column, "name" | "filter_words">): string[] {
  const known = WORDS[column.name];
  const parts = column.name.split("_");
  const alike = (words: string) => words.split(" ").filter((word) => parts.includes(word)).length;
  const list = (column.filter_words ?? []).filter((words) => words !== known);
  const exact = list.filter((words) => words === column.name);
  const sorted = list.filter((words) => words !== column.name).toSorted((a, b) => alike(b) - alike(a) || a.length - b.length);
  return [...(known ? [known] : []), ...exact, ...sorted];
}

/** `src ip 192.0.2.1`, or null when the filter language has no word for the column or the value is not there. */
export function termFor(column: Pick<Column, "name" | "filter_words">, value: Cell): string | null {
  if (column.name === "tcp_flags") return flagsTerm(value);
  const words = wordsOf(column)[0];
  if (!words || value === null || value === "" || value === "other") return null;
  const text = String(value);
  if (!/^[\w.:/-]+$/.test(text)) return null;
  return `${words.replace(/ ip$/, text.includes("/") ? " net" : " ip")} ${text}`;
}

/** These flags and no others. */
function flagsTerm(value: Cell): string | null {
  const bits = Number(value);
  if (value === null || !(bits > 0 && bits < 256)) return null;
  return `flags =${[..."CEUAPRSF"].filter((_, at) => bits & (0x80 >> at)).join("")}`;
}

/** Whether `or` stands outside of parentheses, brackets and comments. */
export function hasOuterOr(filter: string): boolean {
  let depth = 0;
  for (const [token] of filter.replace(/#[^\n]*/g, " ").matchAll(/[()[\]]|"[^"]*"|[^\s()[\]]+/g)) {
    if (token === "(" || token === "[") depth += 1;
    else if (token === ")" || token === "]") depth -= 1;
    else if (depth === 0 && /^(or|\|\|)$/i.test(token)) return true;
  }
  return false;
}

/** The filter and this term; nothing changes when the term is there already, its opposite is replaced. */
export function addTerm(filter: string, term: string, negate: boolean): string {
  const added = negate ? `not ${term}` : term;
  const opposite = negate ? term : `not ${term}`;
  const trimmed = filter.trim();
  if (trimmed === "") return added;
  if (!hasOuterOr(trimmed) && !trimmed.includes("#")) {
    const terms = conjuncts(trimmed);
    if (terms.includes(added)) return trimmed;
    if (terms.includes(opposite)) return terms.map((each) => (each === opposite ? added : each)).join(" and ");
  }
  const line = trimmed.includes("#") ? "\n" : " ";
  return hasOuterOr(trimmed) ? `(${trimmed}${line === "\n" ? "\n" : ""}) and ${added}` : `${trimmed}${line}and ${added}`;
}

/** The parts that are joined by `and` outside of parentheses; the whole as one part when an `or` is among them. */
export function conjuncts(filter: string): string[] {
  const text = filter.replace(/#[^\n]*/g, " ").trim();
  if (text === "") return [];
  if (hasOuterOr(text)) return [text.replace(/\s+/g, " ")];
  const out: string[] = [];
  let depth = 0;
  let begin = 0;
  for (const match of text.matchAll(/[()[\]]|"[^"]*"|[^\s()[\]]+/g)) {
    const token = match[0];
    if (token === "(" || token === "[") depth += 1;
    else if (token === ")" || token === "]") depth -= 1;
    else if (depth === 0 && /^(and|&&)$/i.test(token)) {
      out.push(text.slice(begin, match.index));
      begin = match.index + token.length;
    }
  }
  out.push(text.slice(begin));
  return out.map((each) => each.trim().replace(/\s+/g, " ")).filter((each) => each !== "");
}

/** The flows of a conversation, of both directions; empty when the row does not say which. */
export function conversationTerm(row: Record<string, Cell>): string {
  const [a, b, protocol] = [row.src_addr, row.dst_addr, row.protocol];
  if (typeof a !== "string" || typeof b !== "string" || protocol === null || protocol === undefined) return "";
  const [p, q] = [row.src_port, row.dst_port];
  const ports = (first: Cell | undefined, second: Cell | undefined) => (p === null || q === null || p === undefined || q === undefined ? "" : ` and src port ${first} and dst port ${second}`);
  const one = (from: string, to: string, terms: string) => `(src ip ${from} and dst ip ${to}${terms})`;
  return `proto ${String(protocol).toLowerCase()} and (${one(a, b, ports(p, q))} or ${one(b, a, ports(q, p))})`;
}

/** What a filter for one address or network says. */
export function addressTerm(address: string, direction: "" | "src" | "dst" = ""): string {
  return `${direction === "" ? "" : `${direction} `}${address.includes("/") ? "net" : "ip"} ${address}`;
}

/** Whether it is an address or a network, as the server reads them: `00:1b:21:01:02:ff`, `12:30:45` and `999.1.1.1` are none. */
export function isAddress(text: string): boolean {
  const [, address = "", bits = "0"] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(text.trim()) ?? [];
  return isIpv4(address) ? Number(bits) <= 32 : isIpv6(address) && Number(bits) <= 128;
}

/** Four numbers without zeros before them, which some read as octal. */
function isIpv4(text: string): boolean {
  const numbers = text.split(".");
  return numbers.length === 4 && numbers.every((number) => /^(0|[1-9]\d{0,2})$/.test(number) && Number(number) <= 255);
}

/** RFC 4291, section 2.2: eight groups, or fewer and one `::`; the last two may be written as an IPv4 address. */
function isIpv6(text: string): boolean {
  const end = text.slice(text.lastIndexOf(":") + 1);
  if (end.includes(".") && !isIpv4(end)) return false;
  const halves = (end.includes(".") ? `${text.slice(0, -end.length)}0:0` : text).split("::");
  const groups = halves.flatMap((half) => (half === "" ? [] : half.split(":")));
  return groups.every((group) => /^[0-9a-f]{1,4}$/i.test(group)) && (halves.length === 2 ? groups.length < 8 : halves.length === 1 && groups.length === 8);
}
