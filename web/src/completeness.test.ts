import { describe, expect, it } from "vitest";
import type { Completeness } from "./api.ts";
import { badge, levelOf, sentence, worst } from "./completeness.ts";

const complete: Completeness = { verdict: "complete", sentence: "", lost_records: 0, lost_datagrams: 0, dropped_datagrams: 0, share: 1 };

describe("completeness", () => {
  it("is what the server says", () => {
    const said: Completeness = { ...complete, verdict: "incomplete", sentence: "114 records lost on the way", lost_records: 114, share: 0.9943 };
    expect(sentence(said)).toBe("114 records lost on the way");
    expect(badge(said)).toBe("99.43 % complete");
  });

  it("is a sentence of the numbers when the server has none", () => {
    expect(sentence(complete)).toBe("the books show nothing missing");
    const lost: Completeness = { ...complete, verdict: "incomplete", lost_records: "1", dropped_datagrams: 1200, share: null };
    expect(sentence(lost)).toBe("1 record lost on the way, 1\u202f200 datagrams dropped here");
    expect(badge(lost)).toBe("incomplete");
  });

  it("is unknown when nothing is said: never complete", () => {
    expect(levelOf(null)).toBe("unknown");
    expect(badge(undefined)).toBe("completeness unknown");
    expect(sentence({ ...complete, verdict: "unknown", share: null })).toContain("no sequence numbers");
  });

  it("is the worst of several domains", () => {
    const lost: Completeness = { ...complete, verdict: "incomplete", share: 0.5 };
    expect(worst([complete, { ...lost, share: 0.9 }, lost])?.share).toBe(0.5);
    expect(worst([complete, { ...complete, verdict: "unknown" }])?.verdict).toBe("unknown");
    expect(worst([])).toBeNull();
  });

  it("does not round a loss away", () => expect(badge({ ...complete, verdict: "incomplete", share: 0.999999 })).toBe("> 99.99 % complete"));
});
