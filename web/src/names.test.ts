import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ColumnType, KnownNames } from "./api.ts";
import { names } from "./names.svelte.ts";

/** Addresses of each request. */
const asked = vi.hoisted(() => [] as string[][]);

vi.mock("./server.svelte.ts", () => ({ server: { seesAll: true } }));
vi.mock("./client.ts", () => {
  class Problem extends Error {
    readonly status = 400;
  }
  // As the server, which refuses a body whole; this one does not take addresses of 198.51.100.0/24.
  const request = (_path: string, _parameters: object, options: { body: { values: { src_addr: string[] } } }): Promise<KnownNames> => {
    const addresses = options.body.values.src_addr;
    asked.push(addresses);
    if (addresses.some((address) => address.startsWith("198.51.100."))) return Promise.reject(new Problem("not an address"));
    return Promise.resolve({ src_addr: Object.fromEntries(addresses.map((address) => [address, { label: `name of ${address}` }])) });
  };
  return { Problem, request };
});

const named = (value: string, type: ColumnType = "address") => names.text({ name: "value", type }, value);

describe("names of addresses", () => {
  beforeEach(() => {
    vi.useFakeTimers();
    asked.length = 0;
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("are asked for addresses alone", async () => {
    expect(named("192.0.2.1")).toBe("");
    for (const text of ["00:1b:21:3c:9d:f8", "12:30:45", "999.1.1.1"]) expect(named(text, "text")).toBe("");
    await vi.advanceTimersByTimeAsync(1000);
    expect(asked).toEqual([["192.0.2.1"]]);
    expect(named("192.0.2.1")).toBe("name of 192.0.2.1");
  });

  it("are found although the server does not take one of them", async () => {
    const others = Array.from({ length: 99 }, (_, at) => `203.0.113.${at}`);
    for (const address of [...others.slice(0, 40), "198.51.100.1", ...others.slice(40)]) named(address);
    await vi.advanceTimersByTimeAsync(1000);
    expect(others.map((address) => named(address))).toEqual(others.map((address) => `name of ${address}`));
    expect(named("198.51.100.1")).toBe("");
    const requests = asked.length;
    await vi.advanceTimersByTimeAsync(1000);
    expect(asked.length).toBe(requests);
  });

  it("are not asked for endlessly where the server takes none", async () => {
    for (let at = 100; at < 250; at += 1) named(`198.51.100.${at}`);
    await vi.advanceTimersByTimeAsync(1000);
    expect(asked.length).toBe(33);
  });
});
