import { describe, expect, it } from "vitest";
import { ago, chooseZone, dateTime, moved, parseRange, parseTime, precise, previous, stepTime, toParameter, zoneName, zoomed } from "./times.ts";

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

  it.each(["", "yesterday", "-5", "15m", "2026-13-01", "2026-11-24T25:00Z", "123"])("%j is no time", (text) => expect(parseTime(text, NOW)).toBeNull());

  it("go to the server with a zone", () => {
    expect(toParameter("-1h", NOW)).toBe("-1h");
    expect(toParameter("2026-11-24T14:00:00+02:00", NOW)).toBe("2026-11-24T12:00:00Z");
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
});
