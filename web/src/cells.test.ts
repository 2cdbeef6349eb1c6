import { describe, expect, it } from "vitest";
import type { AnswerColumn } from "./api.ts";
import { csv, flagsText, ranked, show } from "./cells.ts";

const column = (name: string, type: AnswerColumn["type"], unit?: string): AnswerColumn => ({ name, label: name, type, unit });

describe("values", () => {
  it("are shown as people read them", () => {
    expect(show(null, column("src_as", "number")).text).toBe("–");
    expect(show(443, column("dst_port", "number")).text).toBe("443");
    expect(show(64496, column("src_as", "number")).text).toBe("64496");
    expect(show(6, column("protocol", "number"))).toEqual({ text: "TCP", full: "TCP, protocol 6" });
    expect(show("1234567", column("bytes", "number", "octets"))).toEqual({ text: "1.23 MB", full: "1\u202f234\u202f567 octets" });
    expect(show(0.5, column("share", "number", "share")).text).toBe("50 %");
    expect(show(0x12, column("tcp_flags", "flags")).text).toBe("...A..S.");
    expect(show(true, column("x", "bool")).text).toBe("yes");
  });

  it("have flags as nfdump prints them", () => expect(flagsText(0xff)).toBe("CEUAPRSF"));

  it("of a ranking are those of the page, whatever the answer has besides", () => {
    const columns = ["start", "bytes_share", "dst_port", "flows", "src_addr", "bytes", "bits_per_second", "flows_share"].map((name) => column(name, "number"));
    const answer = ranked({ columns, rows: [[0, 0.5, 443, 3, "192.0.2.1", 99, 7, 0.1]], took_ms: 1 }, ["src_addr", "dst_port"], "bytes");
    expect(answer.columns.map((each) => each.label)).toEqual(["src_addr", "dst_port", "flows", "bytes", "share"]);
    expect(answer.rows).toEqual([["192.0.2.1", 443, 3, 99, 0.5]]);
  });

  it("are CSV that spreadsheets do not run", () => {
    const columns = [column("start", "time"), column("name", "text"), column("bytes", "number")];
    expect(csv(columns, [[0, 'a,"b"', "18446744073709551615"], [null, "=1+1", -5]])).toBe(
      'start,name,bytes\r\n1970-01-01T00:00:00.000Z,"a,""b""",18446744073709551615\r\n,\'=1+1,-5\r\n',
    );
  });
});
