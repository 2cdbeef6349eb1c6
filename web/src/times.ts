// Times of questions (`-1h`, `now`, RFC 3339, milliseconds) and of pages (the zone of the reader, with its name).

import { readMoment } from "./moment.ts";

/** The zone of all times that are shown and typed; without one, that of the reader. */
let chosenZone: string | undefined;

export function chooseZone(zone: string | undefined): void {
  chosenZone = zone;
}

/** Milliseconds since 1970, or null when the text is no time. Times without a zone are in the zone of the reader. */
export function parseTime(text: string, nowMs: number): number | null {
  return readMoment(text, nowMs, chosenZone === "UTC")?.ms ?? null;
}

/** What the API takes: a time becomes UTC, a length before now stays as it was written, and so does what is no time. */
export function toParameter(text: string, nowMs: number): string {
  const moment = readMoment(text, nowMs, chosenZone === "UTC");
  if (moment === null) return text.trim();
  return moment.isRelative ? moment.text : utcText(moment.ms);
}

/** RFC 3339 in UTC, without a fraction when there is none. */
export function utcText(ms: number): string {
  return new Date(ms).toISOString().replace(".000Z", "Z");
}

export interface Range {
  fromMs: number;
  untilMs: number;
}

export function parseRange(from: string, until: string, nowMs: number): Range | null {
  const fromMs = parseTime(from, nowMs);
  const untilMs = parseTime(until, nowMs);
  return fromMs === null || untilMs === null || fromMs >= untilMs ? null : { fromMs, untilMs };
}

/** The time of the same length directly before. */
export function previous(range: Range): Range {
  const length = range.untilMs - range.fromMs;
  return { fromMs: range.fromMs - length, untilMs: range.fromMs };
}

/** Half or twice the time around its middle; never into the future. */
export function zoomed(range: Range, factor: number, nowMs: number): Range {
  const length = Math.max((range.untilMs - range.fromMs) * factor, 1000);
  const middle = (range.fromMs + range.untilMs) / 2;
  const untilMs = Math.min(Math.round(middle + length / 2), nowMs);
  return { fromMs: Math.round(untilMs - length), untilMs };
}

/** The same length, earlier or later by a part of it; never into the future. */
export function moved(range: Range, part: number, nowMs: number): Range {
  const length = range.untilMs - range.fromMs;
  const untilMs = Math.min(Math.round(range.untilMs + length * part), nowMs);
  return { fromMs: untilMs - length, untilMs };
}

interface Fields {
  year: string;
  month: string;
  day: string;
  hour: string;
  minute: string;
  second: string;
}

const FORMATS = new Map<string, Intl.DateTimeFormat>();

function fields(ms: number, given?: string): Fields {
  const zone = given ?? chosenZone;
  const key = zone ?? "";
  let format = FORMATS.get(key);
  if (!format) {
    format = new Intl.DateTimeFormat("en-GB", {
      timeZone: zone,
      hourCycle: "h23",
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
    });
    FORMATS.set(key, format);
  }
  const out: Record<string, string> = {};
  for (const part of format.formatToParts(ms)) out[part.type] = part.value;
  return out as unknown as Fields;
}

/** `2026-11-24 14:05:09`, in the zone of the reader or the one given. */
export function dateTime(ms: number, zone?: string): string {
  const f = fields(ms, zone);
  return `${f.year}-${f.month}-${f.day} ${f.hour}:${f.minute}:${f.second}`;
}

/** `14:05:09`. */
export function clock(ms: number, zone?: string): string {
  const f = fields(ms, zone);
  return `${f.hour}:${f.minute}:${f.second}`;
}

/** As short as the step allows: `14:05:09.120`, `14:05:09`, `14:05`, `11-24 14:00`, `2026-11-24`. */
export function stepTime(ms: number, stepMs: number, spanMs: number, zone?: string): string {
  const f = fields(ms, zone);
  const time = stepMs < 60_000 ? `${f.hour}:${f.minute}:${f.second}` : `${f.hour}:${f.minute}`;
  if (stepMs < 1000) return `${time}.${String(ms % 1000).padStart(3, "0")}`;
  if (stepMs >= 86_400_000) return `${f.year}-${f.month}-${f.day}`;
  return spanMs > 72_000_000 ? `${f.month}-${f.day} ${time}` : time;
}

/** A time with its milliseconds, for lists of flows. */
export function precise(ms: number, zone?: string): string {
  return `${dateTime(ms, zone)}.${String(((ms % 1000) + 1000) % 1000).padStart(3, "0")}`;
}

/** `Europe/Berlin, UTC+01:00` at a time. */
export function zoneName(ms: number, zone?: string): string {
  const name = zone ?? chosenZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
  const local = fields(ms, zone);
  const asUtc = Date.UTC(+local.year, +local.month - 1, +local.day, +local.hour, +local.minute, +local.second);
  const minutes = Math.round((asUtc - Math.floor(ms / 1000) * 1000) / 60_000);
  const two = (value: number) => String(value).padStart(2, "0");
  const offset = `UTC${minutes < 0 ? "−" : "+"}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
  return minutes === 0 ? "UTC" : `${name}, ${offset}`;
}

/** `12 s ago`, `in 3 min`. */
export function ago(ms: number, nowMs: number): string {
  const distance = Math.round((nowMs - ms) / 1000);
  const size = Math.abs(distance);
  const words =
    size < 90 ? `${size} s` : size < 5400 ? `${Math.round(size / 60)} min` : size < 129_600 ? `${Math.round(size / 3600)} h` : `${Math.round(size / 86_400)} d`;
  return distance < 0 ? `in ${words}` : `${words} ago`;
}

/**
 * How long ago something was of which only the minute or the day is known, and that this is not later than the answer: `in the last
 * 40 s`, `12 min ago`. Never in the future, whatever the clocks of page and server say.
 */
function agoBetween(fromMs: number, untilMs: number, nowMs: number): string {
  if (nowMs - untilMs >= 60_000) return ago(untilMs, nowMs);
  return `in the last ${ago(Math.min(fromMs, nowMs - 1000), nowMs).replace(" ago", "")}`;
}

/** When an exporter was last seen, by its books: shortly, and as exactly as it is known. */
export function lastSeen(books: { last_seen_ms: number | null; last_seen_from_ms: number | null }, nowMs: number): { ago: string; exact: string } {
  const [from, until] = [books.last_seen_from_ms, books.last_seen_ms];
  return from === null || until === null ? { ago: "never", exact: "never" } : { ago: agoBetween(from, until, nowMs), exact: between(from, until) };
}

/** `between 2026-11-24 14:05:00 and 14:06:00`. */
function between(fromMs: number, untilMs: number): string {
  const [from, until] = [dateTime(fromMs), dateTime(untilMs)];
  return `between ${from} and ${from.slice(0, 10) === until.slice(0, 10) ? clock(untilMs) : until}`;
}
