import { describe, expect, it } from "vitest";
import type { AnswerColumn, Cell, TableAnswer } from "./api.ts";
import { byCountry, countryName, endsOf, placesOf, strength } from "./countries.ts";

const column = (name: string): AnswerColumn => ({ name, label: name, type: name.endsWith("country") ? "text" : "number" });

function answer(by: string[], rows: Cell[][], bytes: number | string): TableAnswer {
  const columns = ["start", ...by, "flows", "packets", "bytes", "bytes_share"].map(column);
  return { columns, rows: rows.map((row) => [0, ...row, null]), totals: { flows: 0, packets: 0, bytes }, took_ms: 1 };
}

describe("countries", () => {
  it("are of the end that the dimensions name", () => {
    expect(endsOf({ by: ["src_addr"], ends: "" })).toBe("src");
    expect(endsOf({ by: ["dst_port", "dst_country"], ends: "" })).toBe("dst");
    expect(endsOf({ by: ["dst_country", "src_country"], ends: "" })).toBe("either");
  });

  it("are of the end that was chosen, whatever the dimensions name", () => {
    expect(endsOf({ by: ["src_addr"], ends: "dst" })).toBe("dst");
    expect(endsOf({ by: ["dst_country"], ends: "src" })).toBe("src");
    expect(endsOf({ by: ["src_addr", "dst_addr", "protocol", "dst_port"], ends: "either" })).toBe("either");
  });

  it("have names, and what is no country has none", () => {
    expect(countryName("CH")).toBe("Switzerland");
    expect(countryName("ch")).toBe("Switzerland");
    for (const code of ["", "QX", "A1", "DEU", "192.0.2.1", "-"]) expect(countryName(code)).toBe("");
  });

  it("of one end are a row each, and what has none is one", () => {
    const table = byCountry(answer(["src_country"], [["US", 1, 2, 30], ["us", 1, 1, 10], [null, 2, 2, 55], ["DE", 1, 1, 5]], 100), "src", "bytes");
    expect(table.columns.map((each) => each.name)).toEqual(["src_country", "flows", "packets", "bytes", "bytes_share"]);
    expect(table.rows).toEqual([[null, 2, 2, 55, 0.55], ["US", 2, 3, 40, 0.4], ["DE", 1, 1, 5, 0.05]]);
    expect(placesOf(table, "src", "bytes")).toMatchObject({
      known: [{ code: "US", name: "United States", value: 40, share: 0.4 }, { code: "DE", name: "Germany", value: 5, share: 0.05 }],
      unknown: { value: 55, share: 0.55 },
    });
  });

  it("of either end count a flow once each, as the filter of a click does", () => {
    const rows: Cell[][] = [["US", "US", 1, 1, 10], ["US", "DE", 1, 1, 20], [null, "DE", 1, 1, 30], [null, null, 1, 1, 40]];
    const table = byCountry(answer(["src_country", "dst_country"], rows, 100), "either", "bytes");
    expect(table.columns[0]?.name).toBe("country");
    expect(table.rows).toEqual([["DE", 2, 2, 50, 0.5], [null, 1, 1, 40, 0.4], ["US", 2, 2, 30, 0.3]]);
  });

  it("keep every digit of large counters", () => {
    const table = byCountry(answer(["dst_country"], [["FR", 1, 1, "9007199254740993"], ["FR", 1, 1, 2]], "9007199254740995"), "dst", "bytes");
    expect(table.rows).toEqual([["FR", 2, 2, "9007199254740995", 1]]);
  });

  it("have no share where the whole is not known", () => {
    const table = byCountry({ ...answer(["src_country"], [["FR", 1, 1, 2]], 0), totals: null }, "src", "bytes");
    expect(placesOf(table, "src", "bytes")?.known[0]?.share).toBeNull();
  });

  it("are not read from a table of something else", () => {
    expect(placesOf(answer(["src_addr"], [["192.0.2.1", 1, 1, 1]], 1), "src", "bytes")).toBeNull();
    const table = byCountry(answer(["src_country"], [["FR", 1, 1, 2]], 2), "src", "bytes");
    expect(placesOf(table, "dst", "bytes")).toBeNull();
    expect(placesOf(table, "src", "packets")).toBeNull();
    expect(placesOf(null, "src", "bytes")).toBeNull();
  });

  it("have colours by powers of ten", () => {
    expect(strength(1e6, 1e6)).toBe(1);
    expect(strength(1e4, 1e6)).toBeCloseTo(0.5);
    expect(strength(1, 1e6)).toBe(0);
    expect(strength(0, 0)).toBe(0);
  });
});
