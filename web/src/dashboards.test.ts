import { describe, expect, it, vi } from "vitest";
import { NO_FILE } from "./client.ts";
import { newDashboard, quoted, withPanel, writeDashboard } from "./dashboards.ts";
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

  it("are changed only where they are what the change is based on", async () => {
    const sent: (string | null)[][] = [];
    vi.stubGlobal("document", { baseURI: "http://weir.invalid/" });
    vi.stubGlobal("fetch", (_address: string, init: RequestInit) => {
      const headers = new Headers(init.headers);
      sent.push([headers.get("If-Match"), headers.get("If-None-Match")]);
      return Promise.resolve(new Response("{}"));
    });
    await writeDashboard("border", newDashboard("Border"), { ifMatch: '"0123456789abcdef"' });
    await writeDashboard("another", newDashboard("Another"));
    await writeDashboard("new", newDashboard("New"), { ifMatch: NO_FILE });
    vi.unstubAllGlobals();
    expect(sent).toEqual([['"0123456789abcdef"', null], [null, null], [null, "*"]]);
  });

  it("have questions as addresses have them", () => {
    const text = "filter=proto+tcp&by=dst_port&view=lines";
    expect(questionOfText(text).question).toMatchObject({ filter: "proto tcp", by: ["dst_port"], view: "lines" });
    expect(questionOfText(`http://127.0.0.1:2080/#/explore?${text}`)).toEqual(questionOfText(text));
    expect(questionOfText("#/explore").question.by).toEqual(["src_addr"]);
    expect(questionOfText("colour=red").ignored).toEqual(["colour: not known here"]);
  });
});
