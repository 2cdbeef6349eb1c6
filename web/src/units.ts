// Numbers with their units. Counts use SI prefixes (1 kB = 1000 B), as nfdump does.
import type { Cell, Count, Measure } from "./api.ts";

const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

/** A counter as a number; text above 2^53 loses digits that nobody sees in a rounded number. */
export function toNumber(count: Count | null | undefined): number {
  if (count === null || count === undefined) return 0;
  return typeof count === "number" ? count : Number(count);
}

/** Three digits and a prefix: `1.23 M`; without a prefix as it is. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return "–";
  let size = Math.abs(value);
  let step = 0;
  while (size >= 999.5 && step < PREFIXES.length - 1) {
    size /= 1000;
    step += 1;
  }
  const digits = size >= 99.95 || (step === 0 && Number.isInteger(size)) ? 0 : size >= 9.995 ? 1 : 2;
  const sign = value < 0 ? "−" : "";
  return `${sign}${size.toFixed(digits)}${step > 0 ? ` ${PREFIXES[step]}` : ""}`;
}

/** `1.23 MB`, `17 flows`, `4.2 kbit/s`: the prefix is next to the unit where the unit is a symbol. */
export function withUnit(value: number, unit: string | null | undefined): string {
  const text = short(value);
  if (!unit) return text;
  if (unit === "share") return percent(value);
  const hasPrefix = /[a-zA-Z]$/.test(text);
  const isSymbol = unit === "B" || unit.startsWith("bit");
  return hasPrefix && isSymbol ? text + unit : `${text} ${unit}`;
}

export function octets(count: Count | null | undefined): string {
  return withUnit(toNumber(count), "B");
}

/** Every digit, in groups: `1 234 567`. Never rounded, also above 2^53. */
export function exact(count: Count): string {
  const text = String(count);
  return /^-?\d+$/.test(text) ? text.replace(/\B(?=(\d{3})+$)/g, "\u202f") : text;
}

/** `12.3 %`; a share that is not nothing is never shown as 0, one that is not all never as 100. */
export function percent(share: number): string {
  if (!Number.isFinite(share)) return "–";
  if (share > 0 && share < 0.0001) return "< 0.01 %";
  if (share < 1 && share >= 0.99995) return "> 99.99 %";
  const value = share * 100;
  const digits = Math.abs(value) >= 99 || Math.abs(value) < 10 ? 2 : 1;
  return `${Number.isInteger(value) ? value : value.toFixed(digits)} %`;
}

/** `+12 %`, `−3 %`, `× 14`: a change against a value before. */
export function change(now: number, before: number): string {
  if (before === 0) return now === 0 ? "±0 %" : "new";
  const ratio = now / before;
  if (ratio >= 10) return `× ${short(Math.round(ratio))}`;
  const value = Math.round((ratio - 1) * 100);
  return value === 0 ? "±0 %" : value > 0 ? `+${value} %` : `−${-value} %`;
}

export function rateUnit(measure: Measure): string {
  return measure === "bytes" ? "bit/s" : `${measure}/s`;
}

export function measureUnit(measure: Measure): string {
  return measure === "bytes" ? "B" : measure;
}

/** `1.2 s`, `340 ms`, `3 min 20 s`, `2 h 5 min`, `7 d`. */
export function duration(ms: number): string {
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 59.95) return `${Number(s.toFixed(1))} s`;
  const parts: [number, string][] = [
    [86_400, "d"],
    [3_600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  let rest = Math.round(s);
  const words: string[] = [];
  for (const [size, name] of parts) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) words.push(`${count} ${name}`);
    if (words.length === 2) break;
  }
  return words.join(" ");
}

/** Text without loss, for clipboards and CSV. */
export function plain(cell: Cell | undefined): string {
  // Statements may also give lists.
  if (typeof cell === "object" && cell !== null) return JSON.stringify(cell);
  return cell === null || cell === undefined ? "" : String(cell);
}
