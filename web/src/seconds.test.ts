import { describe, expect, it } from "vitest";
import { drawn, followed, isMissing, joined, type Second } from "./seconds.ts";

const NOW = 1_764_000_000_000;
/** Seconds after a time, each with its number. */
const seconds = (from: number, until: number): Second[] => Array.from({ length: until - from }, (_, at) => ({ time_ms: NOW + (from + at) * 1000, bytes_per_s: from + at }));
const numbers = (list: Second[]) => list.map((each) => each.bytes_per_s);

describe("the seconds of five minutes", () => {
  it("are those that the server kept, and then those of the stream", () => {
    const all = joined(seconds(-299, 1), seconds(-1, 4));
    expect(all).toEqual(seconds(-296, 4));
    expect(numbers(joined([], seconds(0, 2)))).toEqual([0, 1]);
    expect(numbers(joined(seconds(0, 2), []))).toEqual([0, 1]);
  });

  it("go on with each that comes, and forget the first", () => {
    expect(followed(seconds(0, 300), { time_ms: NOW + 300_000, bytes_per_s: 300 })).toEqual(seconds(1, 301));
  });

  it("have a gap where none was seen, until the server says what was", () => {
    const [before, after] = [seconds(0, 5), seconds(20, 21)];
    expect([isMissing([], NOW), isMissing(before, NOW + 6000), isMissing(before, NOW + 20_000)]).toEqual([true, false, true]);
    const torn = followed(before, after[0] as Second);
    expect(numbers(torn)).toEqual([0, 1, 2, 3, 4, null, 20]);
    expect(numbers(joined(seconds(0, 20), torn))).toEqual(numbers(seconds(0, 21)));
  });

  it("are those of the clock as it is after it was set back", () => {
    const back = seconds(-3600, -3200);
    expect(back.reduce(followed, seconds(-299, 1))).toEqual(back.slice(-300));
    // A second that comes again takes the place of the one before.
    expect(followed(seconds(0, 3), { time_ms: NOW + 1000, bytes_per_s: 7 }).map((each) => [each.time_ms - NOW, each.bytes_per_s])).toEqual([[0, 0], [1000, 7]]);
    // What came before the clock was set back, in no order with what came after it.
    expect(joined(back.slice(0, 300), [...seconds(-299, 1), ...back.slice(0, 299)])).toEqual(back.slice(0, 300));
    // And what the server kept, before it.
    expect(joined([...seconds(-299, 1), ...back.slice(0, 1)], back.slice(1, 3))).toEqual(back.slice(0, 3));
  });

  it("are drawn over five minutes, however few are known", () => {
    const few = drawn(seconds(290, 301));
    expect(few.map((each) => each.time_ms - NOW).slice(0, 3)).toEqual([0, 289_000, 290_000]);
    expect(numbers(few).slice(0, 3)).toEqual([null, null, 290]);
    expect(drawn(seconds(1, 301))).toEqual(seconds(1, 301));
    expect(drawn([])).toEqual([]);
  });
});
