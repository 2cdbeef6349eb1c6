import { describe, expect, it } from "vitest";
import type { Column } from "./api.ts";
import { completions, wordAt } from "./sqlWords.ts";

const COLUMNS: Column[] = ["src_addr", "dst_addr", "src_port", "bytes", "flows"].map((name) => ({ name, label: name, type: "text" }));
const names = (text: string, isAsked = false) => completions(text, text.length, COLUMNS, isAsked).map((each) => each.text);

describe("words of SQL", () => {
  it("are completed from their beginning, then from a part", () => {
    expect(names("SELECT sr")).toEqual(["src_addr", "src_port"]);
    expect(names("SELECT addr")).toEqual(["src_addr", "dst_addr"]);
    expect(names("SELECT s")).toEqual([]);
    expect(names("SELECT src_addr")).toEqual([]);
    expect(names("SELECT src_addr FROM fl")).toEqual(["flows"]);
    expect(names("select src_addr gr")).toEqual(["GROUP BY"]);
    expect(names("SELECT ", true)).toHaveLength(10);
  });

  it("are not completed in texts and comments", () => {
    expect(names("WHERE application = 'by")).toEqual([]);
    expect(names("WHERE application = 'a' AND by")).toEqual(["bytes"]);
    expect(names("-- by")).toEqual([]);
    expect(wordAt("a\nSELECT byt", 12)).toEqual({ begin: 9, word: "byt" });
  });
});
