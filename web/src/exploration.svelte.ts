// A question of the page Explore, and all that is asked for it: what it may cost, a sketch, the picture, the table, and the
// same of the time before.
import type { Estimate, SankeyAnswer, SketchAnswer, TableAnswer, TimelineAnswer } from "./api.ts";
import { Asking } from "./asking.svelte.ts";
import { ranked } from "./cells.ts";
import { Problem, request, type RequestParameters } from "./client.ts";
import { byCountry, columnsOf, endsOf, ROWS_MAX } from "./countries.ts";
import { type Question, questionText } from "./question.ts";
import { parseRange, previous, toParameter, utcText } from "./times.ts";
import { toNumber } from "./units.ts";

/** From so many flows on, a person decides. */
const ASK_FIRST_ROWS = 500_000_000;
/** From so many flows on, a sketch comes first: less is answered as soon as a sketch is. */
const SKETCH_ROWS = 3_000_000;
/** Series of their own in a picture of lines, and in a heatmap. */
const LINES = 10;
const HEAT_ROWS = 40;

export interface ExplorationParts {
  /** Asks for the table next to a picture. A map is drawn from its table, and always has it. */
  hasTable: boolean;
  points: number;
}

export class Exploration {
  readonly estimate = new Asking<Estimate>();
  readonly sketch = new Asking<SketchAnswer>();
  readonly table = new Asking<TableAnswer>();
  readonly tableBefore = new Asking<TableAnswer>();
  readonly timeline = new Asking<TimelineAnswer>();
  readonly timelineBefore = new Asking<TimelineAnswer>();
  readonly sankey = new Asking<SankeyAnswer>();
  /** Waits for a yes: the question is large. */
  isWaiting = $state(false);
  /** The question whose answers are shown, or on their way. */
  asked: Question | null = $state.raw(null);
  readonly #all = [this.estimate, this.sketch, this.table, this.tableBefore, this.timeline, this.timelineBefore, this.sankey];
  readonly #parts: ExplorationParts;
  /** Grows with each question, so that one that was left goes no further. */
  #turn = 0;

  constructor(parts: ExplorationParts) {
    this.#parts = parts;
  }

  get isRunning(): boolean {
    return [this.estimate, this.sketch, this.table, this.timeline, this.sankey].some((each) => each.isRunning);
  }

  get problem(): Problem | null {
    return this.table.problem ?? this.timeline.problem ?? this.sankey.problem ?? this.estimate.problem;
  }

  /** What is wrong with what the picture is drawn from. */
  get pictureProblem(): Problem | null {
    const view = this.asked?.view;
    return (view === "sankey" ? this.sankey : view === "map" ? this.table : this.timeline).problem;
  }

  get wasCancelled(): boolean {
    return [this.estimate, this.sketch, this.table, this.timeline].some((each) => each.wasCancelled);
  }

  /** Asks what it costs, then asks it, unless it is so large that a person decides. */
  async start(q: Question): Promise<void> {
    this.isWaiting = false;
    this.#turn += 1;
    const turn = this.#turn;
    for (const each of this.#all) [each.problem, each.wasCancelled] = [null, false];
    this.sketch.forget();
    const cost = await this.estimate.ask((options) => request("estimate", common(q), options));
    if (turn !== this.#turn || this.estimate.wasCancelled) return;
    // A role may ask and not be told what it costs.
    const isSecret = this.estimate.problem?.status === 403;
    if (isSecret) this.estimate.problem = null;
    if (cost && toNumber(cost.filtered_rows_max) > ASK_FIRST_ROWS) this.isWaiting = true;
    // Without an estimate the question itself will say what is wrong.
    // Asked again, the picture before is better than a sketch.
    else {
      const isLong = isSecret || (cost !== null && toNumber(cost.filtered_rows_max) >= SKETCH_ROWS);
      await this.run(q, isLong && (this.timeline.answer === null || !isSame(q, this.asked)));
    }
  }

  async run(q: Question, hasSketch = false): Promise<void> {
    this.isWaiting = false;
    this.asked = q;
    this.#turn += 1;
    const turn = this.#turn;
    const isLine = q.view === "stacked" || q.view === "lines";
    if (hasSketch && isLine && q.from !== "") {
      await this.sketch.ask((options) => request("sketch", { ...counted(q), by: q.by[0], top: Math.min(q.top, LINES), measure: q.measure }, options));
      // It is an addition: what is wrong with the question, the exact answer says.
      this.sketch.problem = null;
      if (turn !== this.#turn || this.sketch.wasCancelled) return;
    }
    const before = beforeOf(q);
    this.#askTable(q, before);
    this.#askPicture(q, before);
    if (!before) [this.tableBefore, this.timelineBefore].forEach((each) => each.forget());
  }

  cancel(): void {
    this.#all.forEach((each) => each.cancel());
  }

  drop(): void {
    this.#turn += 1;
    this.#all.forEach((each) => each.drop());
  }

  #askTable(q: Question, before: RequestParameters | null): void {
    const isMap = q.view === "map";
    if (!isMap && (q.by.length === 0 || !(this.#parts.hasTable || q.view === "table"))) return this.table.forget();
    const ends = endsOf(q);
    const by = isMap ? columnsOf(ends) : q.by;
    const group = (which: RequestParameters, limit: number, options: object) =>
      request<TableAnswer>("group", { ...which, by: by.join(","), measure: q.measure, limit: isMap ? ROWS_MAX[ends] : limit }, options).then((answer) =>
        isMap ? byCountry(answer, ends, q.measure) : ranked(answer, by, q.measure),
      );
    void this.table.ask((options) => group(counted(q), q.top, options), "group");
    if (before) void this.tableBefore.ask((options) => group(before, Math.min(q.top * 10, 1000), options));
  }

  #askPicture(q: Question, before: RequestParameters | null): void {
    if (q.view === "sankey") {
      const question = { ...counted(q), by: q.by.join(","), measure: q.measure, limit: Math.max(q.top, 20) };
      if (q.by.length < 2) this.sankey.forget();
      else void this.sankey.ask((options) => request("sankey", question, options));
    } else if (q.view !== "table" && q.view !== "map") {
      const question = { ...counted(q), by: q.by[0], top: Math.min(q.top, q.view === "heatmap" ? HEAT_ROWS : LINES), measure: q.measure, points: this.#parts.points };
      void this.timeline.ask((options) => request("timeline", question, options), q.by.length === 0 ? "timeline" : "");
      if (before) void this.timelineBefore.ask((options) => request("timeline", { ...before, measure: q.measure, points: this.#parts.points }, options));
    }
  }
}

function isSame(a: Question, b: Question | null): boolean {
  return b !== null && questionText(a) === questionText(b);
}

function common(q: Question): RequestParameters {
  const now = Date.now();
  return { filter: q.filter, from: toParameter(q.from, now), until: toParameter(q.until, now) };
}

/** The same flows where their packets and bytes matter. */
function counted(q: Question): RequestParameters {
  return { ...common(q), scaled: q.scaled || undefined };
}

/** The same flows of the time of the same length directly before. */
function beforeOf(q: Question): RequestParameters | null {
  const range = q.previous ? parseRange(q.from, q.until, Date.now()) : null;
  if (!range) return null;
  const before = previous(range);
  return { filter: q.filter, from: utcText(before.fromMs), until: utcText(before.untilMs), scaled: q.scaled || undefined };
}
