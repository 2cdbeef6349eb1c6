import world from "virtual:world";
import { describe, expect, it } from "vitest";
import { equalEarth } from "../../scripts/world.ts";

/** The numbers of a path: the first place of each ring, and steps from there. */
function placesIn(path: string): [number, number][] {
  return path.split("z").filter((ring) => ring !== "").flatMap((ring) => {
    const numbers = (ring.match(/-?\d+/g) ?? []).map(Number);
    let [x, y] = [0, 0];
    return Array.from({ length: numbers.length / 2 }, (_, at): [number, number] => {
      [x, y] = [x + (numbers[2 * at] ?? NaN), y + (numbers[2 * at + 1] ?? NaN)];
      return [x, y];
    });
  });
}

function boxOf(code: string) {
  const places = placesIn(world.shapes[code] ?? "");
  const [xs, ys] = [places.map(([x]) => x), places.map(([, y]) => y)];
  return { left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) };
}

describe("the projection", () => {
  // Both from the paper that describes it, doi 10.1080/13658816.2018.1504949.
  it("is 2.05458 times as wide as it is high, with poles of 0.59247 of the equator", () => {
    expect(equalEarth(180, 0)[0] / equalEarth(0, 90)[1]).toBeCloseTo(2.05458, 4);
    expect(equalEarth(180, 90)[0] / equalEarth(180, 0)[0]).toBeCloseTo(0.59247, 4);
  });

  it.each([0, 17, 45, 71, 88])("keeps areas, at %d degrees too", (latitude) => {
    const step = 1e-3;
    const [[x0], [x1]] = [equalEarth(40 - step, latitude), equalEarth(40 + step, latitude)];
    const [[, y0], [, y1]] = [equalEarth(40, latitude - step), equalEarth(40, latitude + step)];
    const radians = (2 * step * Math.PI) / 180;
    expect(((x1 - x0) * (y1 - y0)) / (radians * radians * Math.cos((latitude * Math.PI) / 180))).toBeCloseTo(1, 5);
  });
});

describe("the map", () => {
  it("has the countries by their codes, small ones as points", () => {
    // Natural Earth gives France, Norway and Kosovo no code of their own in some of its fields.
    for (const code of ["US", "FR", "NO", "XK", "TW", "ZA", "CY"]) expect(world.shapes[code]).toMatch(/^M\d+ \d+l/);
    for (const code of ["SG", "HK", "MT", "BH", "MU"]) expect(world.points[code]).toBeDefined();
    expect(Object.keys(world.shapes).filter((code) => code in world.points || !/^[A-Z]{2}$/.test(code))).toEqual([]);
    expect(world.shapes.AQ ?? world.points.AQ).toBeUndefined();
  });

  it("is within its frame", () => {
    for (const [x, y] of [...Object.values(world.shapes).flatMap(placesIn), ...Object.values(world.points)]) {
      expect(x >= 0 && x <= world.width && y >= 0 && y <= world.height, `${x} ${y}`).toBe(true);
    }
  });

  it("has countries beside their neighbours", () => {
    const [switzerland, germany, spain] = [boxOf("CH"), boxOf("DE"), boxOf("ES")];
    expect(germany.top).toBeLessThan(switzerland.top);
    expect(spain.left).toBeLessThan(switzerland.left);
    // Across the 180th meridian a country goes on: from Kaliningrad eastward, with no line back over the whole map.
    expect(boxOf("RU").left).toBeGreaterThan(germany.right);
    const [x, y] = world.points.SG ?? [0, 0];
    const malaysia = boxOf("MY");
    expect(x > malaysia.left && x < malaysia.right && y > malaysia.top).toBe(true);
  });
});
