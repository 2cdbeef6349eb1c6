import { describe, expect, it } from "vitest";
import type { JournalReport, Watch } from "./api.ts";
import { compared, filterOfKey, lossesOf, ofJournal, stateOf, statementOf, withPaused } from "./watchText.ts";

const watch: Watch = { name: "w", title: "", severity: "notice", paused: false, error: null, text: "", etag: "", counts: null };

describe("watches", () => {
  it("have a state", () => {
    expect(stateOf(watch)).toBe("not run here");
    expect(stateOf({ ...watch, counts: {} })).toBe("running");
    expect(stateOf({ ...watch, paused: true, counts: {} })).toBe("paused");
    expect(stateOf({ ...watch, paused: true, error: { title: "wrong", status: 400 } })).toBe("failed");
  });

  it("say what they could not look at", () => {
    expect(lossesOf({ ...watch, counts: { windows_closed: 5, rows_late: 3, rows_shed: 0, octets_waiting: 7, octets_kept: 456_980_736 } })).toEqual([["rows_late", 3]]);
  });

  it("have a statement, in which places of mistakes are", () => {
    expect(statementOf('title = "a"\nquery = """\nSELECT 1\n"""\n[parameters]\n')).toBe("SELECT 1\n");
    expect(statementOf("query = 'SELECT 1'")).toBe("SELECT 1");
    expect(statementOf('query = "SELECT \\"a\\""')).toBeNull();
    expect(statementOf('title = "no query"')).toBeNull();
    expect(statementOf('query = """\nSELECT')).toBeNull();
  });

  it("have reports whose times are numbers", () => {
    const report = ofJournal({
      id: "a", watch: "w", title: "t", severity: "warning", window_start: "2026-01-01T00:00:00Z", window_end: "2026-01-01T00:01:00Z",
      key: "k", rows: 3, evidence: [{ a: 1 }], records_lost: null, suppressed: 0, next: "",
    });
    expect([report.window_start, report.window_end, report.rows_found, report.next_commands]).toEqual([1767225600000, 1767225660000, 3, []]);
  });

  it("lead to the flows that a report is about", () => {
    const columns = ["src_addr", "dst_port", "protocol"].map((name) => ({ name, label: name, type: "number" as const }));
    expect(filterOfKey("src_addr=2001:db8::1,dst_port=22", columns)).toBe("src ip 2001:db8::1 and dst port 22");
    expect(filterOfKey("src_addr=192.0.2.1,peers=7,protocol=6", columns)).toBe("src ip 192.0.2.1 and proto 6");
    expect(filterOfKey("", columns)).toBe("");
    expect(filterOfKey("src_addr=1.2.3.4) or any", columns)).toBe("");
  });

  it("are compared by key and window", () => {
    const report = (key: string, minute: number): JournalReport => ({
      id: `${key}${minute}`, watch: "w", title: "t", severity: "warning", window_start: `2026-01-01T00:0${minute}:00Z`, window_end: `2026-01-01T00:0${minute + 1}:00Z`,
      key, rows: 1, evidence: [], records_lost: null, suppressed: 0, next: "",
    });
    const found = compared([report("a", 1), report("b", 1), report("a", 2)], [report("a", 1), report("a", 3)]);
    expect([found.same, found.new, found.gone]).toEqual([1, 1, 2]);
    expect(found.reports.map((each) => `${each.change} ${each.id}`)).toEqual(["same a1", "gone gone-b1", "gone gone-a2", "new a3"]);
  });

  it("are paused and armed in their file", () => {
    const file = 'title = "a"\nquery = """\nSELECT 1\npaused = true\n"""\n\n[parameters]\npaused = true\n';
    expect(withPaused(file, true)).toBe(`paused = true\n${file}`);
    expect(withPaused(`paused = true\n${file}`, false)).toBe(`paused = false\n${file}`);
    expect(withPaused(file, false)).toBe(file);
    expect(withPaused('query = "SELECT 1"\npaused = false # for now\n', true)).toBe('query = "SELECT 1"\npaused = true # for now\n');
  });
});
