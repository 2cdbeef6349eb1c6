import { describe, expect, it } from "vitest";
import { newDashboard, quoted, withPanel } from "./dashboards.ts";
import { questionOfText } from "./question.ts";

describe("dashboards", () => {
  it("are files that keep what is in them", () => {
    const file = '# the border\ntitle = "Border"';
    expect(withPanel(file, "Ports", "by=dst_port")).toBe('# the border\ntitle = "Border"\n\n[[panels]]\ntitle = "Ports"\nquestion = "by=dst_port"\n');
    expect(newDashboard('a "b"\n')).toBe('title = "a \\"b\\"\\n"\n');
  });

  it("quote what TOML does not take", () => {
    expect(quoted("a\u007f\u0001\\")).toBe('"a\\u007f\\u0001\\\\"');
  });

  it("have questions as addresses have them", () => {
    const text = "filter=proto+tcp&by=dst_port&view=lines";
    expect(questionOfText(text).question).toMatchObject({ filter: "proto tcp", by: ["dst_port"], view: "lines" });
    expect(questionOfText(`http://127.0.0.1:2080/#/explore?${text}`)).toEqual(questionOfText(text));
    expect(questionOfText("#/explore").question.by).toEqual(["src_addr"]);
    expect(questionOfText("colour=red").ignored).toEqual(["colour: not known here"]);
  });
});
