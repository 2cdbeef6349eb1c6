// Flows that the tests of tasks look for, as a file for `weir import`: an hour of quiet traffic, a link that is full at 14:00 UTC
// of yesterday, a scan before it, flows of other countries at 11:00, and a capture of an exporter that loses.

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

export const TALKER = "203.0.113.9";
export const VICTIM = "192.0.2.80";
export const SCANNER = "203.0.113.66";
export const ROUTER = "198.51.100.1";
/** The interface that is full. */
export const LINK = 7;
export const SCANNED = 600;
/** Addresses that crates/routes/golden/country.mmdb has in other countries, and one that it does not know. */
export const ABROAD = { US: "8.8.8.8", GB: "81.2.69.160", DE: "81.3.0.0", none: "9.9.9.9" };

/** 11:00 UTC of yesterday. */
export function abroadMs(nowMs: number): number {
  return incidentMs(nowMs) - 180 * MINUTE_MS;
}

/** 14:00 UTC of yesterday. */
export function incidentMs(nowMs: number): number {
  return Math.floor(nowMs / DAY_MS) * DAY_MS - DAY_MS + 14 * 60 * MINUTE_MS;
}

interface Planted {
  start: number;
  end: number;
  src_addr: string;
  dst_addr: string;
  src_port: number;
  dst_port: number;
  protocol: number;
  tcp_flags: number;
  packets: number;
  bytes: number;
  in_if: number;
  out_if: number;
  src_as: number;
  dst_as: number;
}

export function plantedFlows(nowMs: number): Planted[] {
  const at = incidentMs(nowMs);
  const flows: Planted[] = [];
  for (let minute = -60; minute < 60; minute += 1) {
    for (let each = 0; each < 4; each += 1) {
      const start = at + minute * MINUTE_MS + each * 9000;
      const packets = 20 + ((minute + 60) * 7 + each * 13) % 90;
      flows.push({
        start, end: start + 20_000, src_addr: `192.0.2.${1 + ((minute + 60) * 3 + each) % 60}`, dst_addr: `198.51.100.${10 + each}`, src_port: 40_000 + each, dst_port: [443, 53, 80, 22][each] ?? 443,
        protocol: each === 1 ? 17 : 6, tcp_flags: each === 1 ? 0 : 27, packets, bytes: packets * 700, in_if: 3, out_if: LINK, src_as: 64_496, dst_as: 64_500,
      });
    }
  }
  for (let each = 0; each < 30; each += 1) {
    const start = at + each * 10_000;
    flows.push({ start, end: start + 9000, src_addr: TALKER, dst_addr: VICTIM, src_port: 443, dst_port: 51_000 + each, protocol: 6, tcp_flags: 24, packets: 280_000, bytes: 400_000_000 + each, in_if: 1, out_if: LINK, src_as: 64_499, dst_as: 64_496 });
  }
  for (let each = 0; each < SCANNED; each += 1) {
    const start = at - 40 * MINUTE_MS + each * 50;
    flows.push({ start, end: start, src_addr: SCANNER, dst_addr: `192.0.2.${1 + (each % 250)}`, src_port: 55_555, dst_port: 1 + each, protocol: 6, tcp_flags: 2, packets: 1, bytes: 40, in_if: 1, out_if: 3, src_as: 64_499, dst_as: 64_496 });
  }
  const abroad: [string, string, number][] = [[ABROAD.US, ABROAD.GB, 4_000_000], [ABROAD.US, ABROAD.US, 2_000_000], [ABROAD.GB, ABROAD.DE, 1_000_000], [ABROAD.none, ABROAD.DE, 500_000]];
  abroad.forEach(([from, to, bytes], each) => {
    const start = abroadMs(nowMs) + each * 1000;
    flows.push({ start, end: start + 20_000, src_addr: from, dst_addr: to, src_port: 443, dst_port: 52_000 + each, protocol: 6, tcp_flags: 27, packets: bytes / 1000, bytes, in_if: 1, out_if: 3, src_as: 64_501, dst_as: 64_502 });
  });
  return flows.sort((a, b) => a.end - b.end);
}

export function plantedCsv(nowMs: number): string {
  const flows = plantedFlows(nowMs);
  const names = Object.keys(flows[0] ?? {}) as (keyof Planted)[];
  const lines = flows.map((flow) => [ROUTER, flow.end, ...names.map((name) => flow[name])].join(","));
  return `${["exporter", "received", ...names].join(",")}\n${lines.join("\n")}\n`;
}

/** A capture file without each `every`-th packet but the first ones, which have the templates. */
export function thinned(capture: Buffer, every: number): Buffer {
  const HEAD = 24;
  const PACKET_HEAD = 16;
  const parts = [capture.subarray(0, HEAD)];
  const isLittle = [0xd4, 0x4d].includes(capture[0] ?? 0);
  let at = HEAD;
  for (let packet = 0; at + PACKET_HEAD <= capture.length; packet += 1) {
    const length = PACKET_HEAD + (isLittle ? capture.readUInt32LE(at + 8) : capture.readUInt32BE(at + 8));
    if (packet < 3 || packet % every !== 0) parts.push(capture.subarray(at, at + length));
    at += length;
  }
  return Buffer.concat(parts);
}
