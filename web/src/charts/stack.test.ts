import { describe, expect, it } from "vitest";
import { between, stacked, summary, total } from "./stack.ts";

describe("pictures", () => {
  it("stack sums, the highest first", () => {
    expect(stacked([[1, 2], [10, 20], [100, 200]])).toEqual([[111, 222], [11, 22], [1, 2]]);
  });

  it("keep a gap a gap: it is not drawn as nothing", () => {
    expect(stacked([[1, null, null], [10, 20, null]])).toEqual([[11, 20, null], [1, 0, null]]);
    expect(total([[null, 3], [null, null]])).toEqual([null, 3]);
    expect(stacked([])).toEqual([]);
  });

  it("have a mean over what is known", () => expect(summary([2, null, 4])).toEqual({ mean: 3, max: 4 }));
  it("mix colours", () => expect(between("#000000", "#ff8000", 0.5)).toBe("rgb(128 64 0)"));
});
