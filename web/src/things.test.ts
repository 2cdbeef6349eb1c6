import { describe, expect, it } from "vitest";
import { addressOfValue, isAbout, lookedUp, networksAround, surroundingsOf, type Thing, thingOf } from "./things.ts";

describe("things", () => {
  it("are read from the argument of their page", () => {
    expect(thingOf("host", "192.0.2.1")?.filter).toBe("ip 192.0.2.1");
    expect(thingOf("host", "192.0.2.0/24")?.word).toBe("network");
    expect(thingOf("as", "64496")?.sides.map((side) => side.filter)).toEqual(["src as 64496", "dst as 64496"]);
    expect(thingOf("service", "tcp/443")?.filter).toBe("proto tcp and port 443");
    expect(thingOf("service", "6/443")?.name).toBe("tcp/443");
    expect(thingOf("service", "53")?.sides[0]?.filter).toBe("dst port 53");
    expect(thingOf("interface", "10.0.0.1/3")?.sides[1]?.filter).toBe("router ip 10.0.0.1 and out if 3");
    expect(thingOf("interface", "2001:db8::9/3")?.filter).toBe("router ip 2001:db8::9 and if 3");
    expect(thingOf("interface", "3")?.rankings[0]?.by).toBe("exporter");
    expect(thingOf("exporter", "10.0.0.1")?.filter).toBe("router ip 10.0.0.1");
  });

  it("are not made of anything else", () => {
    for (const [page, argument] of [["host", "x"], ["as", "4294967296"], ["as", "1 or any"], ["service", "70000"], ["service", "tcp)/80"], ["interface", "a/3"], ["interface", ""], ["exporter", "10.0.0.0/8"], ["flows", "1"]] as const) {
      expect(thingOf(page, argument), `${page} ${argument}`).toBeNull();
    }
  });

  it("are looked up as they are written", () => {
    expect(lookedUp(" 2001:db8::1 ")).toBe("#/host/2001:db8::1");
    expect(lookedUp("as64496")).toBe("#/as/64496");
    expect(lookedUp("TCP/443")).toBe("#/service/tcp/443");
    expect(lookedUp(":53")).toBe("#/service/53");
    expect(lookedUp("443")).toBeNull();
    expect(lookedUp("AS4294967296")).toBeNull();
  });

  it("are behind the values of tables, with what the row knows", () => {
    expect(addressOfValue("dst_port", 443, { protocol: 6 })).toBe("#/service/tcp/443");
    expect(addressOfValue("dst_port", 443)).toBe("#/service/443");
    expect(addressOfValue("dst_port", 2048, { protocol: 1 })).toBe("#/service/2048");
    expect(addressOfValue("in_if", 3, { exporter: "10.0.0.1" })).toBe("#/interface/10.0.0.1/3");
    expect(addressOfValue("in_if", 3, surroundingsOf("router ip 10.0.0.1 and proto tcp"))).toBe("#/interface/10.0.0.1/3");
    expect(addressOfValue("in_if", 3, surroundingsOf("router ip 10.0.0.1 or router ip 10.0.0.2"))).toBe("#/interface/3");
    expect(addressOfValue("dst_port", 53, surroundingsOf("proto udp"))).toBe("#/service/udp/53");
    expect(addressOfValue("src_as", 0)).toBeNull();
    expect(addressOfValue("src_as", 64_496)).toBe("#/as/64496");
    expect(addressOfValue("exporter", "10.0.0.1")).toBe("#/exporter/10.0.0.1");
    expect(addressOfValue("bytes", 443)).toBeNull();
    expect(addressOfValue("dst_port", "other")).toBeNull();
  });

  it("are what a row of a report is about", () => {
    const row = { src_addr: "192.0.2.1", dst_port: 22, src_as: 64_496, exporter: "10.0.0.1", in_if: 3, hosts: 22 };
    const about = (page: string, argument: string) => isAbout(thingOf(page, argument) ?? ({} as Thing), row);
    expect([about("host", "192.0.2.1"), about("as", "64496"), about("service", "tcp/22"), about("interface", "10.0.0.1/3"), about("interface", "3"), about("exporter", "10.0.0.1")]).toEqual(Array(6).fill(true));
    expect([about("host", "192.0.2.10"), about("as", "22"), about("service", "64496"), about("interface", "10.0.0.2/3"), about("interface", "22"), about("exporter", "192.0.2.1"), about("host", "192.0.2.0/24")]).toEqual(Array(7).fill(false));
  });

  it("have networks around them", () => {
    expect(networksAround("192.0.2.17")).toEqual(["192.0.2.0/24", "192.0.0.0/16"]);
    expect(networksAround("2001:db8::1")).toEqual(["2001:db8::/64", "2001:db8::/48"]);
    expect(networksAround("2001:db8:1:2:3:4:5:6")).toEqual(["2001:db8:1:2::/64", "2001:db8:1::/48"]);
    expect(networksAround("192.0.2.0/24")).toEqual([]);
  });
});
