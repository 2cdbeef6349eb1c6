// The seconds of the picture of now: those that the server kept, and then those of the live stream.

export const PICTURE_MS = 300_000;
/** Two seconds that are further apart have a gap between them. */
const GAP_MS = 3_000;

/** A second; null where it is not known. */
export interface Second {
  time_ms: number;
  bytes_per_s: number | null;
}

/** Whether seconds between these and one that comes now were not seen. */
export function isMissing(seconds: Second[], nextMs: number): boolean {
  const last = seconds.at(-1);
  return last === undefined || nextMs - last.time_ms > GAP_MS;
}

/** The same with one that comes now, back to five minutes before it: those at its time or later are of a clock that was set back. */
export function followed(seconds: Second[], { time_ms, bytes_per_s }: Second): Second[] {
  const before = seconds.filter((each) => each.time_ms < time_ms);
  const gap = before.length > 0 && isMissing(before, time_ms) ? [{ time_ms: (before.at(-1)?.time_ms ?? 0) + 1000, bytes_per_s: null }] : [];
  return [...before, ...gap, { time_ms, bytes_per_s }].filter((each) => each.time_ms > time_ms - PICTURE_MS);
}

/** Those that the server kept, and those of the stream that are newer: none where what came last is older, as after a clock was set back. */
export function joined(kept: Second[], stream: Second[]): Second[] {
  const last = kept.at(-1)?.time_ms ?? -Infinity;
  const newer = (stream.at(-1)?.time_ms ?? -Infinity) > last ? stream.filter((each) => each.time_ms > last) : [];
  return [...kept, ...newer].reduce(followed, [] as Second[]);
}

/** What is drawn: five minutes, of which nothing is known where the first second is later. */
export function drawn(seconds: Second[]): Second[] {
  const [first, last] = [seconds[0], seconds.at(-1)];
  if (!first || !last || first.time_ms - 1000 <= last.time_ms - PICTURE_MS) return seconds;
  return [{ time_ms: last.time_ms - PICTURE_MS, bytes_per_s: null }, { time_ms: first.time_ms - 1000, bytes_per_s: null }, ...seconds];
}
