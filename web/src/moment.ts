// Times as people write them, read as the server reads them (`weir_filter::times`): what it refuses is refused here, so that a
// page never shows another time than it asks for. Only the zone differs: without one a time is in that of the reader here, and in
// UTC there, so the pages send what they have read.

export interface Moment {
  ms: number;
  /** A length before or after now: it needs no zone, and goes to the server as it was written. */
  isRelative: boolean;
  /** What was read of the text. */
  text: string;
}

/** The last moment of the year 9999, in whatever zone: the server knows none later. */
const MS_MAX = 253_402_207_200_999;
const RFC_3339 =
  /^(\d{4})(-?)(\d\d)\2(\d\d)[Tt ](\d\d)(?:(:?)(\d\d)(?:\6(\d\d)(?:[.,](\d{1,9}))?)?)?(?:[Zz]|([+-])(\d\d)(?:(:?)(\d\d)(?:\12(\d\d))?)?)(?:\[[\w/+:!=-]+\])*$/;
const ISO_SPAN = /^p((?:\d+[ymwd])*)(?:t((?:\d+(?:[.,]\d{1,9})?[hms])+))?$/i;
const DAYS = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
/** The longest first, each with its months or its milliseconds. */
const UNITS: { names: string; months?: number; ms?: number }[] = [
  { names: "y yr yrs year years", months: 12 },
  { names: "mo mos month months", months: 1 },
  { names: "w wk wks week weeks", ms: 604_800_000 },
  { names: "d day days", ms: 86_400_000 },
  { names: "h hr hrs hour hours", ms: 3_600_000 },
  { names: "m min mins minute minutes", ms: 60_000 },
  { names: "s sec secs second seconds", ms: 1000 },
  { names: "ms msec msecs milli millis millisecond milliseconds", ms: 1 },
  { names: "us usec usecs µs µsec µsecs micro micros microsecond microseconds", ms: 1e-3 },
  { names: "ns nsec nsecs nano nanos nanosecond nanoseconds", ms: 1e-6 },
];
const UNIT_OF = new Map(UNITS.flatMap(({ names }, at) => names.split(" ").map((name) => [name, at])));
const HOUR_AT = UNIT_OF.get("h") ?? 0;

/** Null when the text is no time. */
export function readMoment(text: string, nowMs: number, isUtc: boolean): Moment | null {
  // A plus sign of an offset is a blank in an address.
  return read(text, nowMs, isUtc) ?? (text.includes(" ") ? read(text.replaceAll(" ", "+"), nowMs, isUtc) : null);
}

function read(given: string, nowMs: number, isUtc: boolean): Moment | null {
  const text = given.trim();
  const moment = (ms: number | null, isRelative = false) => (ms !== null && Math.abs(ms) <= MS_MAX ? { ms, isRelative, text } : null);
  if (/^\d+$/.test(text)) return moment(Number(text));
  return moment(withZone(text) ?? civil(text, isUtc)) ?? moment(relative(text, nowMs), true) ?? moment(named(text, nowMs, isUtc));
}

function withZone(text: string): number | null {
  const found = RFC_3339.exec(text);
  if (!found) return null;
  const number = (at: number) => Number(found[at] ?? 0);
  const [hours, minutes, seconds] = [number(11), number(13), number(14)];
  if (hours > 25 || minutes > 59 || seconds > 59) return null;
  const offset = ((hours * 60 + minutes) * 60 + seconds) * (found[10] === "-" ? -1000 : 1000);
  // A leap second is the one before it.
  const second = number(8) === 60 ? 59 : number(8);
  const local = momentOf([number(1), number(3), number(4), number(5), number(7), second], millisecondsOf(found[9]), true);
  return local === null ? null : local - offset;
}

/** A date and what is known of its time: what is left out is the first of its range. */
function civil(text: string, isUtc: boolean): number | null {
  const fraction = /^([^:]*:[^:]*:[^:]*)\.(\d{1,9})$/.exec(text);
  const numbers = (fraction?.[1] ?? text).split(/[-/.Tt :]/);
  if (numbers.length > 6 || numbers[0]?.length !== 4 || !numbers.every((each) => /^\d{1,5}$/.test(each))) return null;
  const [year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0] = numbers.map(Number);
  return momentOf([year, month, day, hour, minute, second], millisecondsOf(fraction?.[2]), isUtc);
}

function millisecondsOf(fraction: string | undefined): number {
  return Number((fraction ?? "").padEnd(3, "0").slice(0, 3));
}

/** Null for a day or an hour that there is not. Of an hour that the clocks leave out, the same after it. */
function momentOf([year, month, day, hour, minute, second]: [number, number, number, number, number, number], ms: number, isUtc: boolean): number | null {
  const utc = new Date(0);
  utc.setUTCFullYear(year, month - 1, day);
  if (utc.getUTCMonth() !== month - 1 || utc.getUTCDate() !== day || hour > 23 || minute > 59 || second > 59) return null;
  if (isUtc) return utc.setUTCHours(hour, minute, second, ms);
  const local = new Date(2000, 0, 1, hour, minute, second, ms);
  return local.setFullYear(year, month - 1, day);
}

/** `now`, and a length before or after it: `-1h30m`, `now - 1 hour`, `90 minutes ago`. */
function relative(text: string, nowMs: number): number | null {
  if (text === "now") return nowMs;
  if (!/^(now|[+-])|ago$/.test(text)) return null;
  const [, sign = "", written = ""] = /^(?:now)?\s*([+-]*)\s*(.*)$/s.exec(text) ?? [];
  const [, plain = written, ago] = /^(.*\S)\s+(ago)$/s.exec(written) ?? [];
  // What has no sign of its own may be of the past in words only.
  const span = ago !== undefined && ISO_SPAN.test(plain) ? null : spanOf(plain);
  if (!span) return null;
  const direction = sign.startsWith("-") === (ago !== undefined) ? 1 : -1;
  return Math.floor(later(nowMs, direction * span.months) + direction * span.ms);
}

/** Months later: their last day where they have no such day. */
function later(ms: number, months: number): number {
  const date = new Date(ms);
  const day = date.getUTCDate();
  date.setUTCDate(1);
  date.setUTCMonth(date.getUTCMonth() + months);
  const days = new Date(Date.UTC(2000, date.getUTCMonth() + 1, 0)).getUTCDate();
  const isShort = date.getUTCMonth() === 1 && new Date(Date.UTC(date.getUTCFullYear(), 2, 0)).getUTCDate() === 28;
  return date.setUTCDate(Math.min(day, isShort ? 28 : days));
}

/** A length such as `1h30m`, `1 hour, 30 minutes`, `1 day 02:30:00` or `P1DT2H`; the longest unit first. */
function spanOf(text: string): { months: number; ms: number } | null {
  const iso = ISO_SPAN.exec(text);
  let rest = iso ? `${(iso[1] ?? "").toLowerCase().replace("m", "mo")}${(iso[2] ?? "").toLowerCase()}` : text;
  const span = { months: 0, ms: 0 };
  let after = -1;
  while (rest !== "") {
    const clock = /^(\d+):(\d+):(\d+(?:[.,]\d{1,9})?)$/.exec(rest);
    if (clock) {
      if (after >= HOUR_AT) return null;
      span.ms += ((Number(clock[1]) * 60 + Number(clock[2])) * 60 + Number(clock[3]?.replace(",", "."))) * 1000;
      return span;
    }
    const found = /^(\d+)(?:[.,](\d{1,9}))?\s*([a-zµ]+)(?:(?:,\s)?\s*(?=\d)|$)/.exec(rest);
    const at = found ? UNIT_OF.get(found[3] ?? "") : undefined;
    if (!found || at === undefined || at <= after) return null;
    rest = rest.slice(found[0].length);
    // Only the last may have a fraction, and no day.
    if (found[2] !== undefined && (rest !== "" || at < HOUR_AT)) return null;
    const count = Number(`${found[1]}.${found[2] ?? 0}`);
    span.months += count * (UNITS[at]?.months ?? 0);
    span.ms += count * (UNITS[at]?.ms ?? 0);
    after = at;
  }
  return after < 0 ? null : span;
}

/** A day by its name, which is the last such one, a time of day, or both: `yesterday`, `monday 08:30`, `14:05`. */
function named(text: string, nowMs: number, isUtc: boolean): number | null {
  const now = new Date(nowMs);
  const [, first = "", rest = ""] = /^(.[^ T]*)(?:[ T]\s*(.*))?$/s.exec(text) ?? [];
  const back = daysBack(first.toLowerCase(), isUtc ? now.getUTCDay() : now.getDay());
  const time = timeOfDay(back === null ? text : rest, back !== null);
  if (!time) return null;
  const [year, month, day] = isUtc ? [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()] : [now.getFullYear(), now.getMonth(), now.getDate()];
  const date = new Date(Date.UTC(year, month, day - (back ?? 0)));
  return momentOf([date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate(), ...time], 0, isUtc);
}

function daysBack(word: string, today: number): number | null {
  if (word === "today") return 0;
  if (word === "yesterday") return 1;
  const day = DAYS.findIndex((name) => word === name || (word.length === 3 && name.startsWith(word)));
  return day < 0 ? null : (today - day + 7) % 7;
}

function timeOfDay(text: string, isMidnightWithout: boolean): [number, number, number] | null {
  if (text === "" && isMidnightWithout) return [0, 0, 0];
  const [, hour, minute, second = "0"] = /^(\d{1,2}):(\d{1,2})(?::(\d{1,2}))?$/.exec(text) ?? [];
  return hour === undefined || minute === undefined ? null : [Number(hour), Number(minute), Number(second)];
}
