// One question at a time: a newer one takes the place of an older one, and what was answered stays until the next answer.
import type { RunningQuestion } from "./api.ts";
import { asProblem, isAbort, type Problem, request, type RequestOptions } from "./client.ts";
import { toNumber } from "./units.ts";

/** How often the server is asked how far it is. */
const FOLLOW_MS = 700;
/** Clocks of page and server may differ by this much. */
const CLOCKS_MS = 5_000;

export class Asking<T> {
  answer: T | null = $state.raw(null);
  problem: Problem | null = $state.raw(null);
  isRunning = $state(false);
  wasCancelled = $state(false);
  /** Rows that the server has read, while it runs. */
  rowsRead: number | null = $state(null);
  #controller: AbortController | null = null;
  #poll: ReturnType<typeof setInterval> | null = null;

  /** Runs `ask`. With `follow`, the first word of the question in the list of the server, its progress is followed. */
  async ask(ask: (options: RequestOptions) => Promise<T>, follow = ""): Promise<T | null> {
    this.#end();
    const controller = new AbortController();
    this.#controller = controller;
    this.isRunning = true;
    this.wasCancelled = false;
    if (follow !== "") this.#follow(follow);
    try {
      const answer = await ask({ signal: controller.signal });
      if (this.#controller !== controller) return null;
      this.answer = answer;
      this.problem = null;
      return answer;
    } catch (error) {
      if (this.#controller !== controller || isAbort(error)) return null;
      this.problem = asProblem(error);
      return null;
    } finally {
      if (this.#controller === controller) this.#finish();
    }
  }

  /** Stops on somebody's wish. The server ends a question whose client leaves. */
  cancel(): void {
    if (!this.isRunning) return;
    this.#end();
    this.wasCancelled = true;
  }

  /** Stops because nobody looks any more. */
  drop(): void {
    if (this.isRunning) this.#end();
  }

  forget(): void {
    this.#end();
    this.answer = null;
    this.problem = null;
  }

  #end(): void {
    this.#controller?.abort();
    this.#controller = null;
    this.#finish();
  }

  #finish(): void {
    if (this.#poll !== null) clearInterval(this.#poll);
    this.#poll = null;
    this.isRunning = false;
    this.rowsRead = null;
  }

  #follow(word: string): void {
    const began = Date.now() - CLOCKS_MS;
    const controller = this.#controller;
    this.#poll = setInterval(async () => {
      const running = await request<RunningQuestion[]>("questions").catch(() => []);
      // The newest of the kind: others may ask the same at the same time, and their progress is about as good.
      const found = running.filter((question) => question.text.startsWith(word) && question.since_ms >= began).at(-1);
      if (found && this.#controller === controller && this.isRunning) this.rowsRead = toNumber(found.rows_read);
    }, FOLLOW_MS);
  }
}
