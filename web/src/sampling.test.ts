import { describe, expect, it } from "vitest";
import type { Sampling } from "./api.ts";
import { listNote, mark, sentence } from "./sampling.ts";

const measured: Sampling = { is_scaled: false, by: "none", has_sampled: true, sampled_flows: 1200, unknown_flows: 1 };

describe("sampling", () => {
  it("is marked where it makes a difference", () => {
    expect(mark(measured)).toBe("not scaled");
    expect(mark({ ...measured, has_sampled: false, sampled_flows: 0 })).toBe("");
    expect(mark({ ...measured, is_scaled: true, by: "reported" })).toBe("scaled by sampling");
    expect(mark({ ...measured, is_scaled: true, by: "corrections", has_sampled: false })).toBe("scaled by sampling");
  });

  it("is not guessed when a server says nothing", () => {
    expect(mark(null)).toBe("");
    expect(mark(undefined)).toBe("");
  });

  it("is said above a list of flows, and that a filter on counts means other flows there", () => {
    expect(listNote({ scaled: false, filter: "bytes > 1000" })).toBe("");
    expect(listNote({ scaled: true, filter: "src ip 192.0.2.1" })).toMatch(/as measured.*sampling_interval\.$/);
    for (const filter of ["bytes > 1000", "proto tcp and (packets > 7)", "BPS > 1m"]) expect(listNote({ scaled: true, filter })).toContain("other flows");
    for (const filter of ["src_label bytes-team", "any"]) expect(listNote({ scaled: true, filter })).not.toContain("other flows");
  });

  it("is a sentence with the numbers that are known", () => {
    expect(sentence(measured)).toBe(
      "packets and bytes are as measured: some of these flows were sampled, and stand for more; 1\u202f200 flows sampled; 1 flow of exporters that do not report it",
    );
    const notCounted: Sampling = { ...measured, is_scaled: true, by: "reported", sampled_flows: null, unknown_flows: null };
    expect(sentence(notCounted)).toBe("packets and bytes are multiplied by the sampling interval that exporters reported");
    expect(sentence({ ...notCounted, by: "corrections", unknown_flows: 0 })).toContain("of the file of corrections");
  });
});
