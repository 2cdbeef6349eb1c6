import { describe, expect, it } from "vitest";
import type { Column } from "./api.ts";
import { addTerm, conjuncts, conversationTerm, hasOuterOr, isAddress, termFor } from "./filterText.ts";
import { reasons } from "./why.ts";

describe("filters made by a click", () => {
  it("have the words of the column", () => {
    expect(termFor({ name: "src_addr" }, "192.0.2.1")).toBe("src ip 192.0.2.1");
    expect(termFor({ name: "src_addr" }, "192.0.2.0/24")).toBe("src net 192.0.2.0/24");
    expect(termFor({ name: "x", filter_words: ["engine id"] }, 3)).toBe("engine id 3");
    expect(termFor({ name: "tcp_flags", filter_words: ["flags"] }, 27)).toBe("flags =APSF");
    expect(termFor({ name: "src_mac", filter_words: ["mac", "in src mac", "src mac"] }, "00:1b:21:01:02:ff")).toBe("src mac 00:1b:21:01:02:ff");
    expect(termFor({ name: "nothing" }, 3)).toBeNull();
    expect(termFor({ name: "src_addr" }, null)).toBeNull();
    expect(termFor({ name: "src_addr" }, "other")).toBeNull();
    expect(termFor({ name: "src_addr" }, "1 or any")).toBeNull();
  });

  it.each([
    ["", "dst port 53", false, "dst port 53"],
    ["", "dst port 53", true, "not dst port 53"],
    ["proto udp", "dst port 53", false, "proto udp and dst port 53"],
    ["proto udp or proto tcp", "dst port 53", true, "(proto udp or proto tcp) and not dst port 53"],
    ["(proto udp or proto tcp)", "dst port 53", false, "(proto udp or proto tcp) and dst port 53"],
    ["proto udp and dst port 53", "dst port 53", false, "proto udp and dst port 53"],
    ["not dst port 53 and proto udp", "dst port 53", false, "dst port 53 and proto udp"],
    ["dst port 53", "dst port 53", true, "not dst port 53"],
    ["proto udp # dns", "dst port 53", false, "proto udp # dns\nand dst port 53"],
    ["ip in [192.0.2.1, 192.0.2.2]", "proto 6", false, "ip in [192.0.2.1, 192.0.2.2] and proto 6"],
  ])("%j and %j (not: %s) is %j", (filter, term, negate, result) => expect(addTerm(filter, term, negate)).toBe(result));

  it("know where an or stands", () => {
    expect(hasOuterOr("a OR b")).toBe(true);
    expect(hasOuterOr("a and (b or c)")).toBe(false);
    expect(hasOuterOr("a # or b")).toBe(false);
    expect(conjuncts("a and (b or c and d) and not e")).toEqual(["a", "(b or c and d)", "not e"]);
  });

  it("know an address", () => {
    for (const text of ["192.0.2.1", "192.0.2.0/24", "2001:db8::1", "::", "::ffff:192.0.2.1"]) expect(isAddress(text), text).toBe(true);
    for (const text of ["", "192.0.2", "proto tcp", "host", "12:x"]) expect(isAddress(text), text).toBe(false);
    // RFC 4291, sections 2.2 and 2.3.
    for (const text of ["ABCD:EF01:2345:6789:abcd:ef01:2345:6789", "FF01::101", "::1", "0:0:0:0:0:0:13.1.68.3", "2001:DB8:0:0:8:800:200C:417A/128", "::/0", "1:2:3:4:5:6:7::"]) {
      expect(isAddress(text), text).toBe(true);
    }
    for (const text of ["2001:0DB8::CD30::", "2001:db8:::1", "1:2:3:4:5:6:7:8::", "1:2:3:4:5:6:7", "12345::", "::/129", "1::2:3.4.5", ":", ":::", "/24"]) {
      expect(isAddress(text), text).toBe(false);
    }
    // What looks like one: MAC addresses, times, numbers that are too large.
    for (const text of ["00:1b:21:3c:9d:f8", "12:30:45", "ab:cd:ef", "999.1.1.1", "192.0.2.1/33", "192.0.02.1", ":53"]) expect(isAddress(text), text).toBe(false);
  });
});

describe("why a flow is in a list", () => {
  const columns = ["src_addr", "dst_addr", "dst_port", "src_port", "bytes", "protocol"].map((name): Column => ({ name, label: name, type: "text" }));
  const row = { src_addr: "192.0.2.17", dst_addr: "198.51.100.1", dst_port: 443, src_port: 50000, bytes: 1200, protocol: 6 };
  const said = (filter: string) => reasons(filter, columns, row).map((each) => `${each.term}: ${each.values.map((value) => value.column.name).join(" ")}`);

  it("names the values that each part reads", () => {
    expect(said("src net 192.0.2.0/24 and port 443 and not (bytes < 1k) and proto tcp")).toEqual([
      "src net 192.0.2.0/24: src_addr",
      "port 443: dst_port src_port",
      "not (bytes < 1k): bytes",
      "proto tcp: protocol",
    ]);
    expect(said("ip 192.0.2.17 or dst port 443")).toEqual(["ip 192.0.2.17 or dst port 443: src_addr dst_addr dst_port"]);
    expect(said("")).toEqual([]);
  });

  it("are made of both directions of a conversation", () => {
    const row = { src_addr: "192.0.2.1", dst_addr: "2001:db8::1", src_port: 40_000, dst_port: 443, protocol: 6 };
    expect(conversationTerm(row)).toBe(
      "proto 6 and ((src ip 192.0.2.1 and dst ip 2001:db8::1 and src port 40000 and dst port 443) or (src ip 2001:db8::1 and dst ip 192.0.2.1 and src port 443 and dst port 40000))",
    );
    expect(conversationTerm({ ...row, src_port: null, dst_port: null })).toBe("proto 6 and ((src ip 192.0.2.1 and dst ip 2001:db8::1) or (src ip 2001:db8::1 and dst ip 192.0.2.1))");
    expect(conversationTerm({ ...row, protocol: null })).toBe("");
  });
});
