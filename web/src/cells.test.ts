import { describe, expect, it } from "vitest";
import type { AnswerColumn } from "./api.ts";
import { csv, flagsText, show } from "./cells.ts";

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

  it("are CSV that spreadsheets do not run", () => {
    const columns = [column("start", "time"), column("name", "text"), column("bytes", "number")];
    expect(csv(columns, [[0, 'a,"b"', "18446744073709551615"], [null, "=1+1", -5]])).toBe(
      'start,name,bytes\r\n1970-01-01T00:00:00.000Z,"a,""b""",18446744073709551615\r\n,\'=1+1,-5\r\n',
    );
  });
});
