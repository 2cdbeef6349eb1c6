import { describe, expect, it } from "vitest";
import { booksKeyOf, protocolOf } from "./exportProtocol.ts";

describe("protocols of the books", () => {
  it("have names", () => expect([9, 10, 105, 42, null].map(protocolOf)).toEqual(["NetFlow v9", "IPFIX", "sFlow v5", "version 42", "not known"]));

  it("have lines of their own for one address and number", () => {
    const keys = [10, 105, null].map((version) => booksKeyOf({ exporter: "10.0.0.1", domain: 0, version }));
    expect(new Set(keys).size).toBe(3);
  });
});
