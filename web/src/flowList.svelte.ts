// A long list of flows, of which only the blocks are loaded that somebody looks at.
import type { AnswerColumn, Cell, Completeness, Sampling, TableAnswer, WhyEmpty } from "./api.ts";
import { asProblem, isAbort, type Problem, request, type RequestParameters } from "./client.ts";
import { toNumber } from "./units.ts";

export const BLOCK = 200;
/** Beyond, a narrower filter is better than scrolling; and the server would have to sort ever more. */
export const LIST_MAX = 100_000;

/** Single flows, or both directions of a conversation in one row. */
export type FlowPath = "flows" | "biflows";

export class FlowList {
  columns: AnswerColumn[] = $state.raw([]);
  /** How many rows the list has. */
  count = $state(0);
  /** How many flows match; null when the server does not say. */
  total: number | null = $state(null);
  problem: Problem | null = $state.raw(null);
  isRunning = $state(false);
  tookMs: number | null = $state(null);
  isCached = $state(false);
  completeness: Completeness | null = $state.raw(null);
  /** Why the list is empty, when it is. */
  whyEmpty: WhyEmpty | null = $state.raw(null);
  /** Of all flows that match; null until they are counted. */
  sampling: Sampling | null = $state.raw(null);
  /** Grows when a block came, so that what shows rows looks again. */
  version = $state(0);
  #blocks = new Map<number, Cell[][] | "asked">();
  #parameters: RequestParameters = {};
  #path: FlowPath = "flows";
  #controller = new AbortController();

  /** Begins a new list. The times must be absolute: the blocks belong together. */
  async begin(path: FlowPath, parameters: RequestParameters): Promise<void> {
    this.drop();
    this.#path = path;
    this.#controller = new AbortController();
    this.#blocks = new Map();
    this.#parameters = parameters;
    this.isRunning = true;
    this.problem = null;
    const answer = await this.#load(0);
    if (answer) {
      this.columns = answer.columns;
      [this.total, this.sampling] = [null, null];
      this.count = answer.is_truncated ? LIST_MAX : answer.rows.length;
      this.tookMs = answer.took_ms;
      this.isCached = answer.is_cached ?? false;
      this.completeness = answer.completeness ?? null;
      this.whyEmpty = answer.why_empty ?? null;
      this.version += 1;
      if (path === "flows") await this.#countAll();
    }
  }

  /** How many there are takes reading them all: the first rows do not wait for it. */
  async #countAll(): Promise<void> {
    const controller = this.#controller;
    const parameters = { ...this.#parameters, order: "", limit: 1, totals: true };
    const answer = await request<TableAnswer>("flows", parameters, { signal: controller.signal }).catch(() => null);
    if (controller !== this.#controller || !answer?.totals) return;
    this.total = toNumber(answer.totals.flows);
    this.sampling = answer.sampling ?? null;
    // A record may stand for many flows: then there are fewer rows than flows.
    if (this.total > 0) this.count = Math.min(this.count, this.total);
  }

  drop(): void {
    this.#controller.abort();
    this.isRunning = false;
  }

  /** A row, or null while it comes. */
  row(at: number): Cell[] | null {
    const block = this.#blocks.get(Math.floor(at / BLOCK));
    return block === undefined || block === "asked" ? null : (block[at % BLOCK] ?? null);
  }

  /** Loads what is needed to show these rows. */
  need(first: number, last: number): void {
    for (let block = Math.floor(first / BLOCK); block <= Math.floor(last / BLOCK); block += 1) {
      if (!this.#blocks.has(block) && block * BLOCK < this.count) void this.#load(block);
    }
  }

  async #load(block: number): Promise<TableAnswer | null> {
    const controller = this.#controller;
    this.#blocks.set(block, "asked");
    this.isRunning = true;
    try {
      const parameters = { ...this.#parameters, limit: BLOCK, offset: block * BLOCK };
      const answer = await request<TableAnswer>(this.#path, parameters, { signal: controller.signal });
      if (controller !== this.#controller) return null;
      this.#blocks.set(block, answer.rows);
      if (block > 0 && !answer.is_truncated && (answer.rows.length > 0 || block === 1)) this.count = Math.min(this.count, block * BLOCK + answer.rows.length);
      this.version += 1;
      return answer;
    } catch (error) {
      if (controller === this.#controller && !isAbort(error)) {
        this.#blocks.delete(block);
        this.problem = asProblem(error);
      }
      return null;
    } finally {
      if (controller === this.#controller) this.isRunning = [...this.#blocks.values()].includes("asked");
    }
  }
}
