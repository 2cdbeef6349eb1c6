import { describe, expect, it } from "vitest";
import { indexOfOctet, marked, octetOfIndex, wordBegin } from "./places.ts";

describe("places", () => {
  it("count octets as UTF-8 does", () => {
    const text = "aü日😀z";
    expect([0, 1, 3, 6, 10, 11].map((octet) => text.slice(0, indexOfOctet(text, octet)))).toEqual(["", "a", "aü", "aü日", "aü日😀", text]);
    expect(indexOfOctet(text, 2)).toBe(1);
    expect(octetOfIndex(text, 3)).toBe(6);
  });

  it("mark a mistake in its line", () => {
    expect(marked("proto tcp and\n src prot 80", 19, 23)).toEqual({ line: 2, before: " src ", wrong: "prot", after: " 80" });
    expect(marked("proto", 5, 5)).toEqual({ line: 1, before: "proto", wrong: "", after: "" });
    expect(marked("", 0, 9)).toEqual({ line: 1, before: "", wrong: "", after: "" });
  });

  it("find the word before the cursor", () => {
    expect(wordBegin("src ip 19", 9)).toBe(7);
    expect(wordBegin("port in [80,4", 13)).toBe(12);
    expect(wordBegin("src ", 4)).toBe(4);
  });
});
