// Where times stand at the axis of a picture.

const [SECOND, MINUTE, HOUR, DAY] = [1000, 60_000, 3_600_000, 86_400_000];
const few = (unit: number, counts: number[]) => counts.map((count) => count * unit);

/** How far apart times may be. uPlot has nothing between a minute and five, which leaves a phone without a time over five minutes. */
export const TICKS_MS = [
  ...few(1, [1, 2, 5, 10, 20, 50, 100, 200, 500]),
  ...few(SECOND, [1, 2, 5, 10, 15, 30]),
  ...few(MINUTE, [1, 2, 5, 10, 15, 30]),
  ...few(HOUR, [1, 2, 3, 4, 6, 8, 12]),
  ...few(DAY, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 30, 60, 90, 120, 180, 365, 730, 1825, 3650]),
];

/** What the axis of values and the edge take of the width. */
const MARGINS = 114;

/** Pixels from one time to the next at least: what the longest takes, and less where there is less room and times are short. */
export function tickSpace(width: number, stepMs: number, spanMs: number): number {
  const isShort = stepMs >= SECOND && spanMs <= 20 * HOUR;
  return width - MARGINS < 400 && isShort ? 60 : 90;
}
