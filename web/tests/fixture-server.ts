// Test code: a server that answers as `weir serve` does, from data of its own, so that the pages can be tried without it.
// It is no part of the product. What the pages ask, it remembers in `requests`.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { existsSync, readFileSync, statSync } from "node:fs";
import { type AddressInfo, isIP } from "node:net";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import type { KnownNames, ProblemBody, Report, Watch } from "../src/api.ts";
import { csv } from "../src/cells.ts";
import { Answers } from "./fixture-answers.ts";
import { COLUMNS } from "./fixture-data.ts";
import { parseTime } from "../src/times.ts";
import { statementOf } from "../src/watchText.ts";
import { archiveAt, backtestAt, BORDER, booksAt, dashboardOf, etagOf, interfacesAt, liveAt, namesOf, reportsAt, seriesAt, watchesAt } from "./fixture-state.ts";

export const CSP = "default-src 'self'; style-src 'self'; script-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
const DIST = fileURLToPath(new URL("../dist/", import.meta.url));
const TYPES: Record<string, string> = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml" };
const FILTER_WORDS = ["any", "src", "dst", "ip", "net", "port", "proto", "tcp", "udp", "icmp", "bytes", "packets", "flags", "router", "and", "or", "not", "in", "if", "as", "first", "seen", "next", "nat", "out", "country"];

const WINDOW = ["from", "until"];
const WHICH = ["filter", ...WINDOW];
const COUNTED = [...WHICH, "measure", "scaled"];
/** Parameters that a path does not know are refused. */
const PARAMETERS: Record<string, string[]> = {
  "GET flows": [...WHICH, "columns", "order", "limit", "offset", "totals"],
  "GET biflows": [...WHICH, "order", "limit", "offset"],
  "GET flows/download": [...WHICH, "columns", "order", "limit", "format"],
  "GET exporters/10.0.0.2": WINDOW,
  "GET interfaces": [...WINDOW, "scaled"],
  "GET rank": [...COUNTED, "by", "limit"],
  "GET group": [...COUNTED, "by", "limit"],
  "GET timeline": [...COUNTED, "by", "top", "points"],
  "GET sketch": [...COUNTED, "by", "top"],
  "GET sankey": [...COUNTED, "by", "limit"],
  "GET estimate": WHICH,
  "GET completeness": WINDOW,
  "GET filter/check": ["filter"],
  "GET filter/complete": ["filter", "at"],
  "GET reports": ["since", "watch", "limit"],
  "GET series": ["family", "match", "limit"],
  "GET series/fetch": [...WINDOW, "family", "key", "metric", "step"],
};

export interface Fixture {
  address: string;
  requests: string[];
  /** Connections of live streams that are open. */
  lives: () => number;
  close: () => Promise<void>;
}

class FixtureServer {
  readonly requests: string[] = [];
  lives = 0;
  #answers = new Answers(Date.now());
  #watches: Watch[] = watchesAt();
  #dashboards = new Map([["border", BORDER]]);
  #reports: Report[] = reportsAt(this.#answers.nowMs);

  async take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://fixture.invalid");
    response.setHeader("Content-Security-Policy", CSP);
    if (!url.pathname.startsWith("/api/v1/")) return page(url.pathname, response);
    const path = url.pathname.slice("/api/v1/".length);
    this.requests.push(`${request.method} ${path}${decodeURIComponent(url.search.replaceAll("+", " "))}`);
    if (path === "live") return this.#live(response);
    if (path === "flows/download" && !url.searchParams.get("filter")?.includes("port 413")) return this.#download(url.searchParams, response);
    const body = await read(request);
    try {
      this.#checkBasis(`${request.method} ${path}`, request.headers["if-match"], request.headers["if-none-match"]);
      json(response, 200, await this.#answer(`${request.method} ${path}`, url.searchParams, body));
    } catch (error) {
      const problem = error as ProblemBody;
      json(response, problem.status ?? 500, problem.status ? problem : { title: String(error), status: 500 }, "application/problem+json");
    }
  }

  async #answer(what: string, parameters: URLSearchParams, body: string): Promise<unknown> {
    const now = this.#answers.nowMs;
    const filter = parameters.get("filter") ?? "";
    const strange = [...parameters.keys()].filter((name) => !(PARAMETERS[what] ?? []).includes(name));
    if (strange.length > 0) throw problem(400, "the request is wrong", `there is no parameter '${strange[0]}'`);
    for (const name of WINDOW) {
      const text = parameters.get(name) ?? "now";
      if (parseTime(text, now) === null) throw problem(400, "the request is wrong", `'${text}' is no time`, "write 2026-11-21T08:30, 08:30, now, today, yesterday 14:00, monday or -1h30m");
    }
    if (parameters.get("by")?.split(",").includes("nosuch")) throw problem(400, "the request is wrong", "flows cannot be grouped by 'nosuch'", "name a column");
    const wrong = /^GET (flows|biflows|flows\/download|rank|group|timeline|sketch|sankey|estimate)$/.test(what) ? checkFilter(filter) : null;
    if (wrong) throw problem(400, "the filter cannot be read", wrong.message, wrong.hint, { from: wrong.from, to: wrong.to });
    if (filter.includes("port 99")) await new Promise((resolve) => setTimeout(resolve, 3000));
    switch (what) {
      case "GET info":
        return { version: "0.1.0", started_ms: now - 7_200_000, archive: { folder: "flows", flows: 231_904_112, octets: 4_810_331_204, segments: 511, first_ms: now - 21 * 86_400_000, last_ms: now }, collecting: [{ listen: "127.0.0.1:2055" }], user: { name: "local", role: "admin" }, has_users: false };
      case "GET columns":
        return COLUMNS;
      case "GET flows":
        return this.#answers.table(parameters);
      case "GET rank":
      case "GET group":
        return this.#answers.group(parameters);
      case "GET timeline":
        return this.#answers.timeline(parameters);
      case "GET sketch": {
        const line = this.#answers.timeline(new URLSearchParams([...parameters, ["points", "48"]]));
        return { ...line, share: 0.0417 };
      }
      case "GET sankey":
        return this.#answers.sankey(parameters);
      case "GET estimate":
        return { filtered_segments: 24, filtered_octets: 190_331_204, filtered_rows_max: filter.includes("net 10.0.0.0/8") ? 4_090_000_000 : 9_210_400 };
      case "POST sql":
        return this.#sql((JSON.parse(body) as { statement: string }).statement);
      case "GET questions":
        return [{ id: 7, user: "local", text: "group by=src_addr", since_ms: Date.now(), rows_read: 4_000_000, octets_read: 1, rows_all: 9_000_000 }];
      case "GET filter/check": {
        const error = checkFilter(filter);
        return error ? { ok: false, error } : { ok: true };
      }
      case "GET filter/complete":
        return complete(filter, Number(parameters.get("at") ?? 0));
      case "GET live/seconds":
        return Array.from({ length: 300 }, (_, at) => ({ ...liveAt(Date.now() - (299 - at) * 1000, at, 0), exporters: undefined, drops: undefined, reports_open: undefined }));
      case "GET completeness":
        return booksAt(now, parameters.get("from") === "-5m");
      case "GET watches":
        return this.#watches;
      case "GET reports":
        return this.#reports.filter((each) => !parameters.get("watch") || each.watch === parameters.get("watch"));
      case "POST reports/ack": {
        const ack = JSON.parse(body) as { watch: string; key?: string };
        this.#reports = this.#reports.map((each) => (each.watch === ack.watch && each.key === (ack.key ?? "") ? { ...each, acknowledged: true } : each));
        return {};
      }
      case "POST names":
        return this.#names(JSON.parse(body) as NamesBody);
      case "GET names":
        throw problem(405, "the method is not possible", "GET is not possible here");
      case "GET interfaces":
        return interfacesAt();
      case "GET flows/download":
        throw problem(413, "that is too large", "the answer has more than 64 MiB", "take a shorter time");
      case "GET biflows":
        return this.#answers.biflows(parameters);
      case "GET dashboards":
        return [...this.#dashboards].map(([name, text]) => dashboardOf(name, text));
      case "GET archive":
        return archiveAt(now);
      case "GET series":
        return seriesAt(parameters.get("family"));
      case "GET series/fetch": {
        const line = this.#answers.timeline(parameters);
        const values = (line.series[0]?.values ?? []).map((value) => (value === null ? null : (value * line.step_ms) / 8000));
        return { step_ms: line.step_ms, times: line.times, series: [{ name: parameters.get("metric") ?? "bytes", values }] };
      }
      case "POST sql/check": {
        const error = wrongStatement((JSON.parse(body) as { statement: string }).statement);
        return error ? { ok: false, error } : { ok: true };
      }
      case "POST watches/check": {
        const error = wrongWatch((JSON.parse(body) as { text: string }).text);
        return { ok: error === null, error, plan: error ? null : "windows of 1m" };
      }
      case "GET exporters/10.0.0.2":
        return [{ domain: 0, version: 9, clock_ahead_ms: -448_000, counters: [{ name: "templates", count: 31, description: "Template Records received." }, { name: "records_lost", count: 114, description: "Records missing." }] }];
      default:
        return what.includes(" dashboards/") ? this.#dashboard(what, body) : this.#watch(what, body);
    }
  }

  /** Refuses a change that is based on another file than there is. */
  #checkBasis(what: string, ifMatch?: string, ifNoneMatch?: string): void {
    const [, kind = "", name = ""] = /^(?:PUT|DELETE) (dashboards|watches)\/([\w-]+)$/.exec(what) ?? [];
    if (kind === "") return;
    const text = kind === "dashboards" ? this.#dashboards.get(name) : this.#watches.find((each) => each.name === name)?.text;
    const isMet = ifMatch === undefined || (text !== undefined && ifMatch === etagOf(text));
    if (!isMet || (ifNoneMatch === "*" && text !== undefined)) throw problem(412, "somebody else has changed it", `the ${kind === "dashboards" ? "dashboard" : "watch"} '${name}' is another one by now`, "read it again, and change what is there now");
  }

  #dashboard(what: string, body: string): unknown {
    const [, method = "", name = ""] = /^(\w+) dashboards\/([\w-]+)$/.exec(what) ?? [];
    const text = this.#dashboards.get(name);
    if (method === "GET" && text !== undefined) return dashboardOf(name, text);
    if (method === "DELETE") return this.#dashboards.delete(name), {};
    if (method !== "PUT") throw problem(404, "there is no such thing", `${what} is not known`);
    const at = body.indexOf("colour");
    if (at >= 0) throw problem(400, "the request is wrong", "unknown field `colour`", "a dashboard has title", { from: at, to: at + 6 });
    this.#dashboards.set(name, body);
    return dashboardOf(name, body);
  }

  #watch(what: string, body: string): unknown {
    const [, method = "", name = "", work = ""] = /^(\w+) watches\/([\w-]+)(?:\/(backtest|pause|resume))?$/.exec(what) ?? [];
    const found = this.#watches.find((each) => each.name === name);
    if (method === "POST" && work === "backtest") {
      const asked = JSON.parse(body) as { from: number; until: number; text?: string };
      // A lower threshold finds more.
      const history = /^history_min = "(\d+)d"$/m.exec(asked.text ?? found?.text ?? "")?.[1] ?? 0;
      return backtestAt(this.#answers.nowMs, Math.round((asked.until - asked.from) / 86_400_000), asked.text?.includes("fanout_min = 50") ? 4 : 3, Number(history));
    }
    if (method === "POST" && found) {
      const watch = { ...found, paused: work === "pause" };
      this.#watches = this.#watches.map((each) => (each === found ? watch : each));
      return watch;
    }
    if (method === "PUT") {
      const wrong = wrongWatch(body);
      if (wrong) throw wrong;
      // A pause stays, whatever the file says.
      const isPaused = found !== undefined && found.paused && !pausesItself(found.text);
      const title = /^title = "(.*)"$/m.exec(body)?.[1] ?? "";
      const watch: Watch = { name, title, severity: found?.severity || "notice", paused: isPaused || pausesItself(body), error: null, counts: found?.counts ?? null, text: body, etag: etagOf(body) };
      this.#watches = [...this.#watches.filter((each) => each !== found), watch];
      return watch;
    }
    if (method === "GET" && found) return found;
    if (method === "DELETE") {
      this.#watches = this.#watches.filter((each) => each !== found);
      return {};
    }
    throw problem(404, "there is no such thing", `${what} is not known`);
  }

  #names(asked: NamesBody): KnownNames {
    const strange = Object.keys(asked).find((key) => !["values", "at", "from"].includes(key));
    if (strange !== undefined) throw problem(400, "the request is wrong", `unknown field \`${strange}\``);
    const all = Object.values(asked.values).flat();
    if (all.length > 500) throw problem(400, "the request is wrong", `${all.length} values are asked for, and 500 are possible`);
    const wrong = all.find((value) => isIP(value) === 0);
    if (wrong !== undefined) throw problem(400, "the request is wrong", `'${wrong}' is not an address`);
    const now = this.#answers.nowMs;
    const at = asked.at === undefined ? null : parseTime(asked.at, now);
    return Object.fromEntries(Object.entries(asked.values).map(([column, values]) => [column, namesOf(values, at, now)]));
  }

  #sql(statement: string): unknown {
    const wrong = wrongStatement(statement);
    if (wrong) throw wrong;
    if (statement.includes("busy")) throw problem(503, "too many questions", "8 questions run already", "wait for one of them, or cancel it");
    return { ...this.#answers.group(new URLSearchParams({ by: "src_addr", limit: "20" })), totals: null, is_truncated: false };
  }

  #download(parameters: URLSearchParams, response: ServerResponse): void {
    const format = parameters.get("format") ?? "csv";
    const { columns, rows } = this.#answers.table(parameters);
    response.writeHead(200, { "Content-Type": "application/octet-stream", "Content-Disposition": `attachment; filename="flows.${format}"` });
    response.end(format === "csv" ? csv(columns, rows) : `${format} of ${rows.length} flows`);
  }

  #live(response: ServerResponse): void {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    let tick = 0;
    const send = (ms: number) => response.write(`data: ${JSON.stringify(liveAt(ms, tick++, this.#reports.filter((each) => !each.acknowledged).length))}\n\n`);
    // The sample that is there, at once.
    send(Date.now());
    const timer = setInterval(() => send(Date.now()), 1000);
    this.lives += 1;
    response.on("close", () => {
      clearInterval(timer);
      this.lives -= 1;
    });
  }
}

interface NamesBody {
  values: Record<string, string[]>;
  at?: string;
  from?: string;
}

interface Wrong {
  message: string;
  hint?: string;
  from: number;
  to: number;
}

function wrongStatement(statement: string): ProblemBody | null {
  const at = statement.indexOf("FORM");
  const from = Buffer.byteLength(statement.slice(0, Math.max(at, 0)));
  return at < 0 ? null : problem(400, "the statement cannot be read", "expected end of statement, found FORM", "did you mean 'FROM'?", { from, to: from + 4 });
}

function wrongWatch(file: string): ProblemBody | null {
  const at = statementOf(file)?.indexOf("FORM") ?? -1;
  return at < 0 ? null : problem(400, "the statement is wrong", "expected an expression, found FORM", "did you mean 'FROM'?", { from: at, to: at + 4 });
}

const pausesItself = (file: string) => /^paused = true$/m.test(file);

function checkFilter(filter: string): Wrong | null {
  for (const match of filter.matchAll(/[a-z]+/gi)) {
    const before = filter[match.index - 1] ?? " ";
    if (FILTER_WORDS.includes(match[0].toLowerCase()) || /[\w.:/]/.test(before) || /^[a-f]+$/.test(match[0]) || match[0] === "k" || /country $/.test(filter.slice(0, match.index))) continue;
    const from = Buffer.byteLength(filter.slice(0, match.index));
    return { message: `unknown word '${match[0]}'`, hint: match[0] === "prot" ? "did you mean 'port'?" : undefined, from, to: from + match[0].length };
  }
  return null;
}

function complete(filter: string, at: number) {
  const word = /[a-z]*$/i.exec(Buffer.from(filter).subarray(0, at).toString())?.[0] ?? "";
  const about: Record<string, string> = { port: "Port, whatever the protocol.", proto: "IP protocol, by name or number.", src: "the source" };
  return FILTER_WORDS.filter((each) => each.startsWith(word)).map((text) => ({ text, label: text, description: about[text] ?? "" }));
}

function problem(status: number, title: string, detail: string, hint?: string, place?: { from: number; to: number }): ProblemBody {
  return { type: "about:blank", title, status, detail, hint, place };
}

function json(response: ServerResponse, status: number, body: unknown, type = "application/json"): void {
  response.writeHead(status, { "Content-Type": type });
  response.end(JSON.stringify(body));
}

async function read(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}

function page(path: string, response: ServerResponse): void {
  const file = join(DIST, normalize(path === "/" ? "/index.html" : path));
  if (!file.startsWith(DIST) || !existsSync(file) || !statSync(file).isFile()) return json(response, 404, problem(404, "there is no such page", path));
  response.writeHead(200, { "Content-Type": TYPES[extname(file)] ?? "application/octet-stream" });
  response.end(readFileSync(file));
}

/** Serves on loopback; port 0 takes any that is free. */
export async function startFixture(port = 0): Promise<Fixture> {
  const fixture = new FixtureServer();
  const server = createServer((request, response) => void fixture.take(request, response));
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const close = () =>
    new Promise<void>((resolve) => {
      server.closeAllConnections();
      server.close(() => resolve());
    });
  return { address: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, requests: fixture.requests, lives: () => fixture.lives, close };
}
