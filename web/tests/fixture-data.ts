// Test data: flows that are the same in every run, but for the time they are put at.
import type { Cell, Column } from "../src/api.ts";

export const COLUMNS: Column[] = [
  { name: "received", label: "received", type: "time", unit: "ms", description: "When the Collecting Process received the datagram.", filter_words: [] },
  { name: "start", label: "start", type: "time", unit: "ms", description: "When the first packet of the flow was observed.", filter_words: ["first seen"] },
  { name: "end", label: "end", type: "time", unit: "ms", description: "When the last packet of the flow was observed.", filter_words: ["last seen"] },
  { name: "exporter", label: "exporter", type: "address", description: "Address that the export datagrams came from.", filter_words: ["router ip"] },
  { name: "src_addr", label: "src addr", type: "address", description: "Source address in the IP header.", filter_words: ["src ip"] },
  { name: "dst_addr", label: "dst addr", type: "address", description: "Destination address in the IP header.", filter_words: ["dst ip"] },
  { name: "src_port", label: "sport", type: "number", description: "Source port of the transport header.", filter_words: ["src port"] },
  { name: "dst_port", label: "dport", type: "number", description: "Destination port of the transport header.", filter_words: ["dst port"] },
  { name: "protocol", label: "proto", type: "number", description: "IP protocol number.", filter_words: ["proto"] },
  { name: "tcp_flags", label: "flags", type: "flags", description: "TCP control bits, combined over all packets.", filter_words: ["flags"] },
  { name: "packets", label: "packets", type: "number", unit: "packets", description: "Packets of the flow as measured.", filter_words: ["packets"] },
  { name: "bytes", label: "bytes", type: "number", unit: "octets", description: "Octets of the flow as measured.", filter_words: ["bytes"] },
  { name: "in_if", label: "in if", type: "number", description: "SNMP index of the interface that the flow came in by.", filter_words: ["in if"] },
  { name: "out_if", label: "out if", type: "number", description: "SNMP index of the interface that the flow went out by.", filter_words: ["out if"] },
  { name: "src_as", label: "src as", type: "number", description: "Autonomous system number of the source.", filter_words: ["src as"] },
  { name: "dst_as", label: "dst as", type: "number", description: "Autonomous system number of the destination.", filter_words: ["dst as"] },
  { name: "src_country", label: "src country", type: "text", description: "ISO code of the country of the source.", filter_words: ["country", "src country"] },
  { name: "dst_country", label: "dst country", type: "text", description: "ISO code of the country of the destination.", filter_words: ["country", "dst country"] },
  { name: "next_hop", label: "next hop", type: "address", description: "Address of the next router.", filter_words: ["next ip"] },
  { name: "nat_src_addr", label: "nat src addr", type: "address", description: "Source address after translation.", filter_words: ["src nat ip"] },
  { name: "nat_src_port", label: "nat sport", type: "number", description: "Source port after translation.", filter_words: ["src nat port"] },
  { name: "nat_dst_addr", label: "nat dst addr", type: "address", description: "Destination address after translation.", filter_words: ["dst nat ip"] },
  { name: "application", label: "application", type: "text", description: "Name of the application.", filter_words: ["application"] },
  { name: "server_name", label: "server name", type: "text", description: "Name of the server in TLS.", filter_words: ["sni"] },
];

export type Flow = Record<string, Cell>;

/** Numbers that look random and are the same in every run. */
export function mix(seed: number): number {
  let x = (seed ^ 0x9e3779b9) >>> 0;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return ((x ^ (x >>> 16)) >>> 0) / 2 ** 32;
}

const SERVERS = ["198.51.100.10", "198.51.100.25", "198.51.100.80", "203.0.113.5", "203.0.113.77", "2001:db8:0:5::443", "192.0.2.53"];
/** Countries that were kept with the flows; Singapore is a point on the map, and no map has the European Union. */
const COUNTRIES: Record<string, string> = {
  "198.51.100.10": "DE", "198.51.100.25": "US", "198.51.100.80": "SG", "203.0.113.5": "US", "203.0.113.66": "NL", "203.0.113.77": "JP", "2001:db8:0:5::443": "EU",
};
const PORTS = [443, 443, 443, 80, 53, 22, 993, 8443, 3306];
const HOUR_MS = 3_600_000;
export const SCANNER = "203.0.113.66";

/** Some thousand flows of eight days before `until`; two in five are of the last hour, the rest of the same hour of days before. */
export function makeFlows(untilMs: number): Flow[] {
  const flows: Flow[] = [];
  for (let at = 0; at < 6000; at += 1) {
    const pick = (salt: number) => mix(at * 31 + salt);
    const isScan = at % 40 === 7;
    const day = at % 5 < 2 ? 0 : Math.floor(pick(1) * 8);
    const start = Math.floor(untilMs - day * 24 * HOUR_MS - pick(2) * HOUR_MS * (day === 0 && at % 3 === 0 ? 20 : 1));
    const client = `192.0.2.${10 + Math.floor(pick(3) ** 2 * 40)}`;
    const server = SERVERS[Math.floor(pick(4) ** 1.6 * SERVERS.length)] ?? "198.51.100.10";
    const port = isScan ? 1 + (at % 1024) : (PORTS[Math.floor(pick(5) * PORTS.length)] ?? 443);
    const isUdp = port === 53;
    const packets = isScan ? 1 : 1 + Math.floor(pick(6) ** 4 * 9000);
    const isReply = !isScan && pick(7) > 0.6;
    const from = isScan ? SCANNER : isReply ? server : client;
    const to = isScan ? `192.0.2.${at % 254}` : isReply ? client : server;
    const isNat = from === "192.0.2.11";
    const high = 32_768 + Math.floor(pick(8) * 28_000);
    flows.push({
      received: start + 4000,
      start,
      end: start + Math.floor(pick(9) * 30_000),
      exporter: at % 4 === 0 ? "10.0.0.2" : "10.0.0.1",
      src_addr: from,
      dst_addr: to,
      src_port: isReply ? port : high,
      dst_port: isReply ? high : port,
      protocol: isUdp ? 17 : 6,
      tcp_flags: isUdp ? null : isScan ? 2 : 27,
      packets,
      bytes: packets * (isScan ? 40 : 60 + Math.floor(pick(10) * 1300)),
      in_if: 1 + Math.floor(pick(11) * 4),
      out_if: 1 + Math.floor(pick(12) * 4),
      src_as: from.startsWith("192.0.2.") ? null : 64_496 + Math.floor(pick(4) * 6),
      dst_as: to.startsWith("192.0.2.") ? null : 64_496 + Math.floor(pick(4) * 6),
      src_country: COUNTRIES[from] ?? null,
      dst_country: COUNTRIES[to] ?? null,
      next_hop: null,
      nat_src_addr: isNat ? "203.0.113.200" : null,
      nat_src_port: isNat ? 2000 + (at % 500) : null,
      nat_dst_addr: null,
      application: null,
      server_name: null,
    });
  }
  return flows;
}

const PROTOCOLS: Record<string, number> = { tcp: 6, udp: 17, icmp: 1 };

/** The few parts of the filter language that the tests of the pages need: and, or, not, parentheses, and some primitives. */
export function matches(flow: Flow, filter: string): boolean {
  const tokens = filter.match(/[()]|[^\s()]+/g) ?? [];
  let at = 0;
  const all = (): boolean => {
    let found = one();
    while (tokens[at] === "and") {
      at += 1;
      found = one() && found;
    }
    return found;
  };
  const any = (): boolean => {
    let found = all();
    while (tokens[at] === "or") {
      at += 1;
      found = all() || found;
    }
    return found;
  };
  const one = (): boolean => {
    if (tokens[at] === "not") {
      at += 1;
      return !one();
    }
    if (tokens[at] === "(") {
      at += 1;
      const found = any();
      at += 1;
      return found;
    }
    const begin = at;
    while (at < tokens.length && !["and", "or", ")"].includes(tokens[at] ?? "")) at += 1;
    return primitive(flow, tokens.slice(begin, at).join(" "));
  };
  return tokens.length === 0 || any();
}

function primitive(flow: Flow, term: string): boolean {
  const words = term.split(/\s+/);
  const value = words.pop() ?? "";
  const name = words.join(" ");
  const isIn = (address: Cell | undefined) => {
    const [net, length] = value.split("/");
    return length === undefined ? address === value : length === "24" && String(address).startsWith((net ?? "").replace(/\.0$/, "."));
  };
  if (name === "src ip" || name === "src net") return isIn(flow.src_addr);
  if (name === "dst ip" || name === "dst net") return isIn(flow.dst_addr);
  if (name === "ip" || name === "net") return isIn(flow.src_addr) || isIn(flow.dst_addr);
  if (name === "router ip") return flow.exporter === value;
  if (name === "src port") return flow.src_port === Number(value);
  if (name === "dst port") return flow.dst_port === Number(value);
  if (name === "port") return flow.src_port === Number(value) || flow.dst_port === Number(value);
  if (name === "proto") return flow.protocol === (PROTOCOLS[value] ?? Number(value));
  if (name === "in if") return flow.in_if === Number(value);
  if (name === "out if") return flow.out_if === Number(value);
  if (name === "if") return flow.in_if === Number(value) || flow.out_if === Number(value);
  if (name === "src as") return flow.src_as === Number(value);
  if (name === "dst as") return flow.dst_as === Number(value);
  if (name === "as") return flow.src_as === Number(value) || flow.dst_as === Number(value);
  if (name === "src country") return flow.src_country === value;
  if (name === "dst country") return flow.dst_country === value;
  if (name === "country") return flow.src_country === value || flow.dst_country === value;
  if (name === "nat ip") return flow.nat_src_addr === value;
  if (name === "nat net") return value === "0.0.0.0/0" && flow.nat_src_addr !== null;
  if (name === "bytes >") return Number(flow.bytes) > Number(value.replace("k", "000"));
  return true;
}
