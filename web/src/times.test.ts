import { describe, expect, it } from "vitest";
import { ago, chooseZone, dateTime, lastSeen, moved, parseRange, parseTime, precise, previous, stepTime, toParameter, utcText, zoneName, zoomed } from "./times.ts";

// 2026-03-29 01:00 UTC: clocks of Berlin go from 02:00 to 03:00.
const SPRING = Date.UTC(2026, 2, 29, 1, 0, 0);
const NOW = Date.UTC(2026, 10, 24, 12, 0, 0);

describe("times of questions", () => {
  it("are relative, absolute or now", () => {
    expect(parseTime("now", NOW)).toBe(NOW);
    expect(parseTime("-15m", NOW)).toBe(NOW - 900_000);
    expect(parseTime("-7d", NOW)).toBe(NOW - 604_800_000);
    expect(parseTime("1764000000000", NOW)).toBe(1764000000000);
    expect(parseTime("2026-11-24T14:00:00+02:00", NOW)).toBe(NOW);
    expect(parseTime("2026-11-24T12:00Z", NOW)).toBe(NOW);
    expect(parseTime("2026-11-24T12:00:00.25Z", NOW)).toBe(NOW + 250);
  });

  // What `weir serve` answers with 400 and "is no time".
  it.each([
    "", "-5", "15m", "2026-13-01", "2026-11-24T25:00Z", "2026-02-31", "2026-02-29", "2026-04-31T10:00Z", "2026-11-24Z", "2026-1124T00:00:00Z", "soon",
    "2026-11-24T12:00+1", "P1D", "-1.5d", "-1h,30m", "-1d1d", "-30m1h", "-1h,", "1 hour, ago", "P1D ago", "now P1DT2H ago", "-2fortnights", "today -", "ago", "25:00", "20-11-2023", "10.0.0.1", "2023-1a", "99999999999999999999", "-99999y", "-9e9h",
  ])("%j is no time", (text) => expect(parseTime(text, NOW)).toBeNull());

  it("are what the server takes, too", () => {
    // The texts of crates/filter/src/times.rs, at the time and in the zone of its tests.
    const now = Date.parse("2026-03-31T10:20:30Z");
    chooseZone("UTC");
    const cases: [string, string][] = [
      ["2023-11-14T22:13:20.25+01:00", "2023-11-14T21:13:20.250Z"],
      ["2023-11-14T22:13:20 01:00", "2023-11-14T21:13:20Z"],
      ["2023-11-14t22:13z", "2023-11-14T22:13:00Z"],
      ["20231114T221320Z", "2023-11-14T22:13:20Z"],
      ["2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"],
      ["2023-11-14 22:13:20.125", "2023-11-14T22:13:20.125Z"],
      ["2023/11/14.22:13:20", "2023-11-14T22:13:20Z"],
      ["2023-11", "2023-11-01T00:00:00Z"],
      ["2024-02-29", "2024-02-29T00:00:00Z"],
      ["0099-01-01", "0099-01-01T00:00:00Z"],
      ["123", "1970-01-01T00:00:00.123Z"],
      ["now-15m", "2026-03-31T10:05:30Z"],
      ["now - 1 hour", "2026-03-31T09:20:30Z"],
      ["-1h30m", "2026-03-31T08:50:30Z"],
      ["-1h, 30m", "2026-03-31T08:50:30Z"],
      ["-1.5h", "2026-03-31T08:50:30Z"],
      ["-1 day 02:30:00", "2026-03-30T07:50:30Z"],
      ["-P1DT2H", "2026-03-30T08:20:30Z"],
      ["-P1M", "2026-02-28T10:20:30Z"],
      ["-1mo", "2026-02-28T10:20:30Z"],
      ["-1y1mo", "2025-02-28T10:20:30Z"],
      ["-250ms", "2026-03-31T10:20:29.750Z"],
      ["90 minutes ago", "2026-03-31T08:50:30Z"],
      ["+1h", "2026-03-31T11:20:30Z"],
      ["today", "2026-03-31T00:00:00Z"],
      ["Today", "2026-03-31T00:00:00Z"],
      ["yesterday", "2026-03-30T00:00:00Z"],
      ["yesterday 14:00", "2026-03-30T14:00:00Z"],
      ["yesterdayT14:00", "2026-03-30T14:00:00Z"],
      ["14:05", "2026-03-31T14:05:00Z"],
      ["Tuesday", "2026-03-31T00:00:00Z"],
      ["Monday 08:30:15", "2026-03-30T08:30:15Z"],
      ["wed", "2026-03-25T00:00:00Z"],
    ];
    for (const [text, expected] of cases) expect([text, utcText(parseTime(text, now) ?? 0)]).toEqual([text, expected]);
    chooseZone(undefined);
  });

  it("go to the server with a zone", () => {
    expect(toParameter("-1h", NOW)).toBe("-1h");
    expect(toParameter("2026-11-24T14:00:00+02:00", NOW)).toBe("2026-11-24T12:00:00Z");
    expect(toParameter("90 minutes ago", NOW)).toBe("90 minutes ago");
    // An address has a blank for its plus sign.
    expect(toParameter(" 1h", NOW)).toBe("+1h");
    expect(toParameter("2026-02-31", NOW)).toBe("2026-02-31");
    expect(toParameter("yesterday", NOW)).toBe(new Date(2026, 10, 23).toISOString().replace(".000Z", "Z"));
    const local = parseTime("2026-11-24 14:00", NOW);
    expect(local).toBe(new Date(2026, 10, 24, 14, 0).getTime());
  });

  it("make ranges", () => {
    const range = parseRange("-1h", "now", NOW);
    expect(range).toEqual({ fromMs: NOW - 3_600_000, untilMs: NOW });
    expect(parseRange("now", "-1h", NOW)).toBeNull();
    if (!range) return;
    expect(previous(range)).toEqual({ fromMs: NOW - 7_200_000, untilMs: NOW - 3_600_000 });
    expect(zoomed(range, 0.5, NOW)).toEqual({ fromMs: NOW - 2_700_000, untilMs: NOW - 900_000 });
    expect(zoomed(range, 2, NOW)).toEqual({ fromMs: NOW - 7_200_000, untilMs: NOW });
    expect(moved(range, -0.5, NOW)).toEqual({ fromMs: NOW - 5_400_000, untilMs: NOW - 1_800_000 });
    expect(moved(range, 1, NOW)).toEqual(range);
  });
});

describe("times of pages", () => {
  it("are in the zone that is named, over a change of the clocks", () => {
    expect(dateTime(SPRING - 1000, "Europe/Berlin")).toBe("2026-03-29 01:59:59");
    expect(dateTime(SPRING, "Europe/Berlin")).toBe("2026-03-29 03:00:00");
    expect(zoneName(SPRING - 1000, "Europe/Berlin")).toBe("Europe/Berlin, UTC+01:00");
    expect(zoneName(SPRING, "Europe/Berlin")).toBe("Europe/Berlin, UTC+02:00");
    expect(zoneName(NOW, "America/St_Johns")).toBe("America/St_Johns, UTC−03:30");
    expect(zoneName(NOW, "Etc/UTC")).toBe("UTC");
  });

  it("are in UTC for who wants it, shown and typed", () => {
    chooseZone("UTC");
    expect(dateTime(SPRING)).toBe("2026-03-29 01:00:00");
    expect(zoneName(SPRING)).toBe("UTC");
    expect(parseTime("2026-03-29 01:00", NOW)).toBe(SPRING);
    chooseZone(undefined);
    expect(dateTime(SPRING, "Europe/Berlin")).toBe("2026-03-29 03:00:00");
  });

  it("have midnight as 00", () => expect(dateTime(Date.UTC(2026, 0, 1), "UTC")).toBe("2026-01-01 00:00:00"));
  it("have their milliseconds", () => expect(precise(NOW + 7, "UTC")).toBe("2026-11-24 12:00:00.007"));

  it("are as short as the step allows", () => {
    expect(stepTime(NOW, 1000, 300_000, "UTC")).toBe("12:00:00");
    expect(stepTime(NOW, 60_000, 3_600_000, "UTC")).toBe("12:00");
    expect(stepTime(NOW, 3_600_000, 604_800_000, "UTC")).toBe("11-24 12:00");
    expect(stepTime(NOW, 86_400_000, 2_592_000_000, "UTC")).toBe("2026-11-24");
    expect(stepTime(NOW + 250, 250, 10_000, "UTC")).toBe("12:00:00.250");
  });

  it("say how long ago", () => {
    expect(ago(NOW - 12_000, NOW)).toBe("12 s ago");
    expect(ago(NOW + 180_000, NOW)).toBe("in 3 min");
    expect(ago(NOW - 7_200_000, NOW)).toBe("2 h ago");
    expect(ago(NOW - 200_000_000, NOW)).toBe("2 d ago");
  });

  it("say how long ago to the minute, and never in the future", () => {
    chooseZone("UTC");
    const seen = (last_seen_from_ms: number | null, last_seen_ms: number | null) => Object.values(lastSeen({ last_seen_from_ms, last_seen_ms }, NOW));
    expect(seen(NOW - 7000, NOW)).toEqual(["in the last 7 s", "between 2026-11-24 11:59:53 and 12:00:00"]);
    expect(seen(NOW - 75_000, NOW - 15_000)).toEqual(["in the last 75 s", "between 2026-11-24 11:58:45 and 11:59:45"]);
    expect(seen(NOW - 660_000, NOW - 600_000)).toEqual(["10 min ago", "between 2026-11-24 11:49:00 and 11:50:00"]);
    expect(seen(NOW - 259_200_000, NOW - 172_800_000)).toEqual(["2 d ago", "between 2026-11-21 12:00:00 and 2026-11-22 12:00:00"]);
    // The clock of the server is ahead of that of the page.
    expect(seen(NOW + 5000, NOW + 12_000)[0]).toBe("in the last 1 s");
    expect(seen(null, null)).toEqual(["never", "never"]);
    chooseZone(undefined);
  });
});
