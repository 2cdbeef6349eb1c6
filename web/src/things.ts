// What flows have in common, and what a page asks about it: a host, a network, an AS, a service, an interface, an exporter.
// Each has an address of its own, `#/as/64496`, and each value of a table that is one of them leads there.
import type { Cell } from "./api.ts";
import { addressTerm, conjuncts, isAddress } from "./filterText.ts";

export const KINDS = ["host", "as", "service", "interface", "exporter"] as const;
export type Kind = (typeof KINDS)[number];

/** One direction of its traffic. */
export interface Side {
  name: string;
  filter: string;
}

/** A table of its page: the largest values of a column among some of its flows. */
export interface Ranking {
  title: string;
  by: string;
  filter: string;
}

export interface Thing {
  kind: Kind;
  /** How the page calls it: a host with a length is a network. */
  word: string;
  name: string;
  /** All of its flows. */
  filter: string;
  sides: Side[];
  rankings: Ranking[];
}

const PROTOCOL_WORDS: Record<string, string> = { "1": "icmp", "6": "tcp", "17": "udp", "33": "dccp", "132": "sctp", "136": "udplite" };
const AS_MAX = 2 ** 32 - 1;
const PORT_MAX = 65_535;

function isNumber(text: string | undefined, max: number): text is string {
  return text !== undefined && /^\d{1,10}$/.test(text) && Number(text) <= max;
}

function host(argument: string): Thing | null {
  if (!isAddress(argument)) return null;
  const [sent, received] = [addressTerm(argument, "src"), addressTerm(argument, "dst")];
  const isNetwork = argument.includes("/");
  const members: Ranking[] = isNetwork
    ? [
        { title: "Hosts inside that sent most", by: "src_addr", filter: sent },
        { title: "Hosts inside that received most", by: "dst_addr", filter: received },
      ]
    : [];
  return {
    kind: "host",
    word: isNetwork ? "network" : "host",
    name: argument,
    filter: addressTerm(argument),
    sides: [{ name: "sent", filter: sent }, { name: "received", filter: received }],
    rankings: [
      ...members,
      { title: "Sent most to", by: "dst_addr", filter: sent },
      { title: "Received most from", by: "src_addr", filter: received },
      { title: "Ports it sent to", by: "dst_port", filter: sent },
      { title: "Ports it was sent to on", by: "dst_port", filter: received },
      { title: "AS it sent to", by: "dst_as", filter: sent },
      { title: "AS it received from", by: "src_as", filter: received },
      { title: "Protocols", by: "protocol", filter: addressTerm(argument) },
      { title: "Exporters that saw it", by: "exporter", filter: addressTerm(argument) },
    ],
  };
}

function autonomousSystem(argument: string): Thing | null {
  const number = argument.replace(/^AS/i, "");
  if (!isNumber(number, AS_MAX)) return null;
  const [sent, received] = [`src as ${number}`, `dst as ${number}`];
  return {
    kind: "as",
    word: "AS",
    name: number,
    filter: `as ${number}`,
    sides: [{ name: "sent", filter: sent }, { name: "received", filter: received }],
    rankings: [
      { title: "Hosts inside that sent most", by: "src_addr", filter: sent },
      { title: "Hosts that it sent to", by: "dst_addr", filter: sent },
      { title: "Hosts inside that received most", by: "dst_addr", filter: received },
      { title: "Hosts that it received from", by: "src_addr", filter: received },
      { title: "AS it sent to", by: "dst_as", filter: sent },
      { title: "AS it received from", by: "src_as", filter: received },
      { title: "Ports it sent to", by: "dst_port", filter: sent },
      { title: "Ports it was sent to on", by: "dst_port", filter: received },
      { title: "Exporters that saw it", by: "exporter", filter: `as ${number}` },
    ],
  };
}

/** `443`, or `tcp/443`. */
function service(argument: string): Thing | null {
  const parts = argument.toLowerCase().split("/");
  const [port, protocol] = [parts.at(-1), parts.length > 1 ? (parts[0] ?? "") : ""];
  if (parts.length > 2 || !isNumber(port, PORT_MAX) || !/^[a-z0-9-]*$/.test(protocol)) return null;
  const word = PROTOCOL_WORDS[protocol] ?? protocol;
  const of = (term: string) => (word === "" ? term : `proto ${word} and ${term}`);
  const [asked, answered] = [of(`dst port ${port}`), of(`src port ${port}`)];
  return {
    kind: "service",
    word: "service",
    name: word === "" ? port : `${word}/${port}`,
    filter: of(`port ${port}`),
    sides: [{ name: "to it", filter: asked }, { name: "from it", filter: answered }],
    rankings: [
      { title: "Servers that were sent to", by: "dst_addr", filter: asked },
      { title: "Servers that answered", by: "src_addr", filter: answered },
      { title: "Clients that sent", by: "src_addr", filter: asked },
      { title: "Clients that received", by: "dst_addr", filter: answered },
      { title: "AS of servers", by: "dst_as", filter: asked },
      { title: "AS of clients", by: "src_as", filter: asked },
      { title: "Applications", by: "application", filter: of(`port ${port}`) },
      { title: "Names of servers", by: "server_name", filter: asked },
      { title: "Exporters that saw it", by: "exporter", filter: of(`port ${port}`) },
    ],
  };
}

/** `10.0.0.1/3`: interface 3 of this exporter; without one, that of every exporter. */
function networkInterface(argument: string): Thing | null {
  const slash = argument.lastIndexOf("/");
  const [exporter, index] = [slash < 0 ? "" : argument.slice(0, slash), argument.slice(slash + 1)];
  if (!isNumber(index, AS_MAX) || (exporter !== "" && !isAddress(exporter))) return null;
  const of = (term: string) => (exporter === "" ? term : `router ip ${exporter} and ${term}`);
  const [came, went] = [of(`in if ${index}`), of(`out if ${index}`)];
  const others: Ranking[] = exporter === "" ? [{ title: "Exporters with such an interface", by: "exporter", filter: `if ${index}` }] : [];
  return {
    kind: "interface",
    word: "interface",
    name: argument,
    filter: of(`if ${index}`),
    sides: [{ name: "in", filter: came }, { name: "out", filter: went }],
    rankings: [
      ...others,
      { title: "In: who sent", by: "src_addr", filter: came },
      { title: "Out: who sent", by: "src_addr", filter: went },
      { title: "In: to whom", by: "dst_addr", filter: came },
      { title: "Out: to whom", by: "dst_addr", filter: went },
      { title: "In: ports", by: "dst_port", filter: came },
      { title: "Out: ports", by: "dst_port", filter: went },
      { title: "In: from AS", by: "src_as", filter: came },
      { title: "Out: to AS", by: "dst_as", filter: went },
      { title: "In: where it goes on", by: "out_if", filter: came },
      { title: "Out: where it came in", by: "in_if", filter: went },
    ],
  };
}

function exporter(argument: string): Thing | null {
  if (!isAddress(argument) || argument.includes("/")) return null;
  const filter = `router ip ${argument}`;
  return {
    kind: "exporter",
    word: "exporter",
    name: argument,
    filter,
    sides: [{ name: "traffic", filter }],
    rankings: [
      { title: "Interfaces in", by: "in_if", filter },
      { title: "Interfaces out", by: "out_if", filter },
      { title: "Who sent most", by: "src_addr", filter },
      { title: "To whom most was sent", by: "dst_addr", filter },
      { title: "Ports", by: "dst_port", filter },
      { title: "Protocols", by: "protocol", filter },
      { title: "Sampling: one packet of", by: "sampling_interval", filter },
      { title: "Observation Domains", by: "observation_domain", filter },
    ],
  };
}

const READERS: Record<Kind, (argument: string) => Thing | null> = { host, as: autonomousSystem, service, interface: networkInterface, exporter };

/** What a page of this name and argument is about; null when the argument makes no sense. */
export function thingOf(page: string, argument: string): Thing | null {
  const kind = KINDS.find((each) => each === page);
  return kind ? READERS[kind](argument.trim()) : null;
}

/** What the field for addresses understands: an address, a network, `AS64496`, `tcp/443`, `:443`. */
export function lookedUp(text: string): string | null {
  const typed = text.trim();
  if (isAddress(typed)) return `#/host/${typed}`;
  const as = /^AS\s*(\d+)$/i.exec(typed)?.[1];
  if (as !== undefined) return autonomousSystem(as) && `#/as/${as}`;
  const port = /^(?:(tcp|udp|sctp|dccp)[/ :]|port |:)(\d+)$/i.exec(typed);
  const argument = port ? `${port[1] ? `${port[1].toLowerCase()}/` : ""}${port[2]}` : "";
  return argument !== "" && service(argument) ? `#/service/${argument}` : null;
}

/** What is known of the row that a value is in. */
export interface Surroundings {
  protocol?: Cell;
  exporter?: Cell;
}

/** Of a filter that asks for one exporter, or one protocol, all rows are of these. */
export function surroundingsOf(filter: string): Surroundings {
  const terms = conjuncts(filter);
  const exporterText = terms.map((term) => /^(?:router|exporter) ip ([0-9a-f.:]+)$/i.exec(term)?.[1]).find((found) => found !== undefined);
  const protocol = terms.map((term) => /^(?:proto )?(tcp|udp|sctp)$/i.exec(term)?.[1]).find((found) => found !== undefined);
  return { exporter: exporterText ?? null, protocol: protocol ?? null };
}

/** Where a value leads, without a time; null when it has no page. */
export function addressOfValue(column: string, value: Cell | undefined, row: Surroundings = {}): string | null {
  if (value === null || value === undefined || value === "" || value === "other") return null;
  const text = String(value);
  if (column === "exporter" && isAddress(text)) return `#/exporter/${text}`;
  if (/^(src|dst|prev|next)_as$/.test(column)) return autonomousSystem(text) && text !== "0" ? `#/as/${text}` : null;
  if (/^(in|out)_if$/.test(column)) {
    const of = typeof row.exporter === "string" && isAddress(row.exporter) ? `${row.exporter}/` : "";
    return networkInterface(`${of}${text}`) ? `#/interface/${of}${text}` : null;
  }
  if (/^(src|dst|nat_src|nat_dst)_port$/.test(column)) {
    const word = row.protocol === null || row.protocol === undefined ? "" : String(row.protocol).toLowerCase();
    const protocol = PROTOCOL_WORDS[word] ?? word;
    const of = ["tcp", "udp", "sctp", "dccp"].includes(protocol) ? `${protocol}/` : "";
    return service(`${of}${text}`) ? `#/service/${of}${text}` : null;
  }
  return null;
}

/** Whether a row of a report is about it. */
export function isAbout(thing: Thing, row: Record<string, Cell>): boolean {
  const has = (names: RegExp, value: string) => Object.entries(row).some(([name, cell]) => names.test(name) && String(cell) === value);
  const last = thing.name.slice(thing.name.lastIndexOf("/") + 1);
  const first = thing.name.includes("/") ? thing.name.slice(0, thing.name.lastIndexOf("/")) : "";
  if (thing.kind === "host") return !thing.name.includes("/") && has(/./, thing.name);
  if (thing.kind === "as") return has(/_as$/, thing.name);
  if (thing.kind === "service") return has(/_port$/, last);
  if (thing.kind === "interface") return has(/_if$/, last) && (first === "" || has(/^exporter$/, first));
  return has(/^exporter$/, thing.name);
}

/** The networks around an address that one looks at next. */
export function networksAround(address: string): string[] {
  if (address.includes("/")) return [];
  if (/^\d+\.\d+\.\d+\.\d+$/.test(address)) {
    const [a, b, c] = address.split(".");
    return [`${a}.${b}.${c}.0/24`, `${a}.${b}.0.0/16`];
  }
  const groups = groupsOf(address);
  const network = (count: number) => `${(groups ?? []).slice(0, count).join(":").replace(/(:0)+$/, "")}::/${count * 16}`;
  return groups ? [network(4), network(3)] : [];
}

/** The eight groups of an IPv6 address, without zeros in front. */
function groupsOf(address: string): string[] | null {
  if (address.includes(".")) return null;
  const [head = "", tail] = address.toLowerCase().split("::");
  const [left, right] = [head === "" ? [] : head.split(":"), tail === undefined || tail === "" ? [] : tail.split(":")];
  const missing = 8 - left.length - right.length;
  if (tail === undefined ? missing !== 0 : missing < 0) return null;
  const groups = [...left, ...Array.from({ length: Math.max(0, missing) }, () => "0"), ...right];
  return groups.map((group) => group.replace(/^0+(?=.)/, ""));
}
