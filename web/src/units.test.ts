import { describe, expect, it } from "vitest";
import { change, duration, exact, octets, percent, short, withUnit } from "./units.ts";

describe("numbers", () => {
  it.each([
    [0, "0"], [7, "7"], [999, "999"], [1000, "1.00 k"], [999.6, "1.00 k"], [12_345, "12.3 k"], [999_499, "999 k"], [999_500, "1.00 M"],
    [1.234e9, "1.23 G"], [0.5, "0.50"], [-1500, "−1.50 k"], [Number.NaN, "–"],
  ])("%d is %s", (value, text) => expect(short(value)).toBe(text));

  it("have their unit", () => {
    expect(withUnit(1_500_000, "bit/s")).toBe("1.50 Mbit/s");
    expect(withUnit(17, "bit/s")).toBe("17 bit/s");
    expect(withUnit(17_000, "packets/s")).toBe("17.0 k packets/s");
    expect(withUnit(3, "flows")).toBe("3 flows");
    expect(withUnit(0.25, "share")).toBe("25 %");
    expect(octets("163497163")).toBe("163 MB");
  });

  it("keep every digit above 2^53", () => {
    expect(exact("18446744073709551615")).toBe("18\u202f446\u202f744\u202f073\u202f709\u202f551\u202f615");
    expect(exact(1234)).toBe("1\u202f234");
    expect(exact("-1234.5")).toBe("-1234.5");
  });

  it("never round a share to all or nothing", () => {
    expect(percent(0)).toBe("0 %");
    expect(percent(1)).toBe("100 %");
    expect(percent(0.99999)).toBe("> 99.99 %");
    expect(percent(0.00001)).toBe("< 0.01 %");
    expect(percent(0.9943)).toBe("99.43 %");
    expect(percent(0.9986)).toBe("99.86 %");
    expect(percent(0.0123)).toBe("1.23 %");
  });

  it("change", () => {
    expect(change(112, 100)).toBe("+12 %");
    expect(change(97, 100)).toBe("−3 %");
    expect(change(1400, 100)).toBe("× 14");
    expect(change(5, 0)).toBe("new");
    expect(change(0, 0)).toBe("±0 %");
  });

  it.each([[0, "0 ms"], [340, "340 ms"], [1200, "1.2 s"], [60_000, "1 min"], [200_000, "3 min 20 s"], [7_500_000, "2 h 5 min"], [604_800_000, "7 d"]])(
    "%d ms is %s",
    (ms, text) => expect(duration(ms)).toBe(text),
  );
});
