import { describe, expect, it } from "vitest";
import { addressOf, decode, encode, parseParameters, type Question, questionFrom, questionText, USUAL } from "./question.ts";

const read = (text: string) => questionFrom(parseParameters(text));

describe("the text of a question", () => {
  it("is readable", () => {
    const question: Question = { ...USUAL, filter: "src net 192.0.2.0/24 and dst port in [80, 443]", by: ["dst_addr", "dst_port"], from: "-7d" };
    expect(questionText(question)).toBe("filter=src+net+192.0.2.0/24+and+dst+port+in+[80,+443]&from=-7d&by=dst_addr,dst_port");
  });

  it("is empty for the usual question", () => {
    expect(questionText(USUAL)).toBe("");
    expect(addressOf("explore", {})).toBe("#/explore");
  });

  const filters = [
    "", " ", "a+b", "100%", "%41", "a&b=c", "src ip 2001:db8::1", "bytes > 1k # größer\nand proto tcp", 'ip in "a b.txt"', "x<y>z", "日本", "\\^{}|`",
  ];
  it.each(filters)("comes back from the address: %j", (filter) => {
    const question: Question = {
      filter, from: "2026-11-24T14:00:00Z", until: "-5m", by: ["src_as", "dst_as"], measure: "packets", top: 20, view: "sankey", ends: "either", previous: true, scaled: true,
    };
    // As a browser does it: through an address.
    const hash = new URL(`http://weir.example/#/explore?${questionText(question)}`).hash;
    expect(read(hash.slice(hash.indexOf("?") + 1))).toEqual({ question, ignored: [] });
  });

  it("says when counts are scaled, and only then", () => {
    expect(questionText({ ...USUAL, scaled: true })).toBe("scaled=yes");
    expect(read("scaled=yes").question).toEqual({ ...USUAL, scaled: true });
    expect(read("scaled=no")).toEqual({ question: USUAL, ignored: [] });
  });

  it("has the ends of a map beside as many dimensions as there may be", () => {
    const question: Question = { ...USUAL, by: ["src_addr", "dst_addr", "protocol", "dst_port"], view: "map", ends: "either" };
    expect(questionText(question)).toBe("by=src_addr,dst_addr,protocol,dst_port&view=map&ends=either");
    expect(read(questionText(question))).toEqual({ question, ignored: [] });
    expect(read("ends=both")).toEqual({ question: USUAL, ignored: ["ends=both: must be one of src, dst, either"] });
  });

  it("has no dimension when none is asked", () => {
    const question = { ...USUAL, by: [] };
    expect(questionText(question)).toBe("by=");
    expect(read("by=").question.by).toEqual([]);
  });

  it("reports what it does not understand, and takes the usual value", () => {
    const { question, ignored } = read("measure=octets&top=0&view=pie&colour=red&by=a,b,c,d,e&previous=maybe&scaled=1");
    expect(question).toEqual({ ...USUAL, by: ["a", "b", "c", "d"] });
    expect(ignored).toEqual([
      "colour: not known here",
      "top=0: must be a number from 1 to 1000",
      "by: only the first 4 columns are used",
      "measure=octets: must be one of bytes, packets, flows",
      "view=pie: must be one of stacked, lines, heatmap, sankey, map, table",
      "previous=maybe: must be one of yes, no",
      "scaled=1: must be one of yes, no",
    ]);
  });

  it("decodes what is not encoded well as it is", () => {
    expect(decode("50%+of")).toBe("50% of");
    expect(decode(encode("a\u0000b"))).toBe("a\u0000b");
  });
});
