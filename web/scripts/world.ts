// The map of the world as a module, `virtual:world`: made when the pages are built, from the countries of Natural Earth (public
// domain) as the package world-atlas has them. What is in the pages are paths of SVG in an Equal Earth projection, one for each
// country by its ISO code. Countries that are too small for a map of this scale are points, taken from the next larger scale.
// Antarctica is left out: it would take a fifth of the height.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Plugin } from "vite";

export interface World {
  width: number;
  height: number;
  /** Paths of SVG by ISO 3166 codes of two letters. */
  shapes: Record<string, string>;
  /** Countries without a shape. */
  points: Record<string, [number, number]>;
}

type Point = [number, number];

/** As far as files of world-atlas use TopoJSON: quantized arcs, each point as the difference to the one before. */
interface Topology {
  transform: { scale: Point; translate: Point };
  arcs: Point[][];
  objects: { countries: { geometries: Geometry[] } };
}

type Geometry = { id?: string; properties: { name: string } } & (
  | { type: "Polygon"; arcs: number[][] }
  | { type: "MultiPolygon"; arcs: number[][][] }
);

/** Units of the longest parallel; pictures are about half as many pixels wide. */
const WIDTH = 2000;
const MARGIN = 6;
const ANTARCTICA = "AQ";
/** Areas of Natural Earth without a number of ISO 3166, under the codes that databases of addresses have for them. */
const WITHOUT_NUMBER: Record<string, string> = { Kosovo: "XK", Somaliland: "SO", "N. Cyprus": "CY" };

const M = Math.sqrt(3) / 2;
const [A1, A2, A3, A4] = [1.340264, -0.081106, 0.000893, 0.003796];

/** Equal Earth of a sphere of radius 1, by B. Šavrič, T. Patterson and B. Jenny (2018); degrees in, y to the north. */
export function equalEarth(longitude: number, latitude: number): Point {
  const angle = Math.asin(M * Math.sin((latitude * Math.PI) / 180));
  const square = angle * angle;
  const sixth = square * square * square;
  const x = ((longitude * Math.PI) / 180) * Math.cos(angle) / (M * (A1 + 3 * A2 * square + sixth * (7 * A3 + 9 * A4 * square)));
  return [x, angle * (A1 + A2 * square + sixth * (A3 + A4 * square))];
}

/** CLDR knows the numbers of ISO 3166 as other names of its codes. */
function codeOf(geometry: Geometry): string | null {
  const code = geometry.id === undefined ? WITHOUT_NUMBER[geometry.properties.name] : Intl.getCanonicalLocales(`und-${geometry.id}`)[0]?.slice(4);
  return code !== undefined && /^[A-Z]{2}$/.test(code) ? code : null;
}

function read(scale: "110m" | "50m"): Topology {
  return JSON.parse(readFileSync(createRequire(import.meta.url).resolve(`world-atlas/countries-${scale}.json`), "utf8")) as Topology;
}

/** Rings in degrees. A country that crosses the 180th meridian is whole, to the east of it: Russia and Fiji are. */
function ringsOf(topology: Topology, geometry: Geometry): Point[][] {
  const { scale, translate } = topology.transform;
  const line = (arc: number): Point[] => {
    let [x, y] = [0, 0];
    const points = (topology.arcs[arc < 0 ? ~arc : arc] ?? []).map(([dx, dy]): Point => {
      [x, y] = [x + dx, y + dy];
      return [x * scale[0] + translate[0], y * scale[1] + translate[1]];
    });
    return arc < 0 ? points.reverse() : points;
  };
  // The last point of an arc is the first of the next one.
  const ring = (arcs: number[]) => arcs.flatMap((arc) => line(arc).slice(0, -1));
  const rings = (geometry.type === "Polygon" ? [geometry.arcs] : geometry.arcs).flatMap((polygon) => polygon.map(ring));
  const crosses = rings.some((points) => points.some(([x], at) => Math.abs(x - (points[at - 1]?.[0] ?? x)) > 180));
  return crosses ? rings.map((points) => points.map(([x, y]): Point => [x < 0 ? x + 360 : x, y])) : rings;
}

/** Twice the area, and the centre, of a ring in the plane. */
function centreOf(ring: Point[]): { area: number; centre: Point } {
  let [area, x, y] = [0, 0, 0];
  ring.forEach(([x0, y0], at) => {
    const [x1, y1] = ring[(at + 1) % ring.length] ?? [x0, y0];
    const cross = x0 * y1 - x1 * y0;
    [area, x, y] = [area + cross, x + (x0 + x1) * cross, y + (y0 + y1) * cross];
  });
  const [first] = ring;
  return { area: Math.abs(area), centre: area === 0 ? (first ?? [0, 0]) : [x / (3 * area), y / (3 * area)] };
}

export function makeWorld(): World {
  const [coarse, fine] = [read("110m"), read("50m")];
  const scale = WIDTH / (2 * equalEarth(180, 0)[0]);
  const place = ([longitude, latitude]: Point): Point => {
    const [x, y] = equalEarth(longitude, latitude);
    return [x * scale, -y * scale];
  };
  const placed = new Map<string, Point[][]>();
  for (const geometry of coarse.objects.countries.geometries) {
    const code = codeOf(geometry);
    if (code === null) throw new Error(`the country '${geometry.properties.name}' has no code`);
    if (code !== ANTARCTICA) placed.set(code, [...(placed.get(code) ?? []), ...ringsOf(coarse, geometry).map((ring) => ring.map(place))]);
  }
  const centres = new Map<string, Point>();
  for (const geometry of fine.objects.countries.geometries) {
    const code = codeOf(geometry);
    if (code === null || placed.has(code) || code === ANTARCTICA) continue;
    const largest = ringsOf(fine, geometry).map(centreOf).reduce((most, each) => (each.area > most.area ? each : most));
    centres.set(code, place(largest.centre));
  }
  const all = [...[...placed.values()].flat(2), ...centres.values()];
  const bound = (axis: 0 | 1, sign: 1 | -1) => all.reduce((most, point) => Math.max(most, sign * point[axis]), -Infinity) * sign;
  const [left, top] = [bound(0, -1) - MARGIN, bound(1, -1) - MARGIN];
  const moved = ([x, y]: Point): Point => [Math.round(x - left), Math.round(y - top)];
  return {
    width: Math.ceil(bound(0, 1) - left) + MARGIN,
    height: Math.ceil(bound(1, 1) - top) + MARGIN,
    shapes: Object.fromEntries([...placed].map(([code, rings]) => [code, rings.map((ring) => pathOf(ring.map(moved))).join("")])),
    points: Object.fromEntries([...centres].map(([code, centre]) => [code, moved(centre)])),
  };
}

/** Differences are shorter than places. A ring of fewer than three points is nothing at this scale. */
function pathOf(ring: Point[]): string {
  const kept = ring.filter(([x, y], at) => {
    const [a, b] = ring[at - 1] ?? [NaN, NaN];
    return x !== a || y !== b;
  });
  const [first] = kept;
  if (first === undefined || kept.length < 3) return "";
  const steps = kept.slice(1).map(([x, y], at) => {
    const [a, b] = kept[at] as Point;
    return `${x - a}${y - b < 0 ? "" : " "}${y - b}`;
  });
  return `M${first[0]} ${first[1]}l${steps.reduce((line, step) => line + (step.startsWith("-") ? "" : " ") + step).trim()}z`;
}

const NAME = "virtual:world";

export function world(): Plugin {
  return {
    name: "world",
    resolveId: (id) => (id === NAME ? `\0${NAME}` : undefined),
    load: (id) => (id === `\0${NAME}` ? `export default ${JSON.stringify(makeWorld())};` : undefined),
  };
}
