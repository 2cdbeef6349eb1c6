import { describe, expect, it } from "vitest";
import { TICKS_MS, tickSpace } from "./ticks.ts";

describe("times at the axis", () => {
  // By uPlot's rule: the first distance that leaves the space. The axis of values and the edge take 114 of the width.
  const stepOf = (width: number, stepMs: number, spanMs: number) => TICKS_MS.find((step) => (step * (width - 114)) / spanMs >= tickSpace(width, stepMs, spanMs)) ?? spanMs;

  it.each([320, 338, 360])("are at least two over five minutes on a phone, %d wide", (width) => {
    expect(stepOf(width, 1000, 300_000)).toBeLessThanOrEqual(120_000);
  });

  it("are further apart where they are long", () => {
    expect(tickSpace(338, 1000, 300_000)).toBeLessThan(tickSpace(338, 100, 10_000));
    expect(tickSpace(338, 3_600_000, 604_800_000)).toBe(tickSpace(1200, 60_000, 3_600_000));
  });

  it("can be dates, whatever the time is", () => {
    expect(stepOf(1200, 86_400_000, 10 * 365 * 86_400_000)).toBe(365 * 86_400_000);
    expect(TICKS_MS).toEqual(TICKS_MS.toSorted((a, b) => a - b));
  });
});
