import { describe, expect, it } from "vitest";
import { median, movers } from "./movers.ts";

const day = (values: Record<string, number>, floor = 0) => ({ values: new Map(Object.entries(values)), floor });

describe("movers", () => {
  it("are compared with the median of the days", () => {
    expect(median([])).toBeNull();
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 2, 3])).toBe(2.5);
  });

  it("come by the size of their change", () => {
    const now = new Map([["steady", 1000], ["up", 900], ["down", 10], ["new", 500]]);
    const days = [day({ steady: 990, up: 100, down: 700 }), day({ steady: 1010, up: 120, down: 720 }), day({})];
    expect(movers(now, days, 10).map((each) => [each.name, each.usual, each.isBound])).toEqual([
      ["up", 110, false],
      ["down", 710, false],
      ["new", 0, true],
      ["steady", 1000, false],
    ]);
  });

  it("do not take absence from a cut list for nothing", () => {
    expect(movers(new Map([["a", 500]]), [day({ b: 900 }, 400)], 1)).toEqual([{ name: "a", now: 500, usual: 400, isBound: true }]);
  });

  it("have nothing usual without a past", () => {
    expect(movers(new Map([["a", 5]]), [day({})], 1)).toEqual([{ name: "a", now: 5, usual: null, isBound: false }]);
  });
});
