// One question at a time: a newer one takes the place of an older one, and what was answered stays until the next answer.
import type { RunningQuestion } from "./api.ts";
import { asProblem, isAbort, listOf, type Problem, request, type RequestOptions } from "./client.ts";

let questions = 0;

export class Asking<T> {
  answer: T | null = $state.raw(null);
  problem: Problem | null = $state.raw(null);
  isRunning = $state(false);
  wasCancelled = $state(false);
  /** Rows that the server has read, while it runs. */
  rowsRead: number | null = $state(null);
  #controller: AbortController | null = null;
  #poll: ReturnType<typeof setInterval> | null = null;
  #id = "";

  /** Runs `ask`, and follows its progress when `follow` is set. Gives the answer, or null when there is none. */
  async ask(ask: (options: RequestOptions) => Promise<T>, follow = false): Promise<T | null> {
    this.#end();
    const controller = new AbortController();
    this.#controller = controller;
    questions += 1;
    this.#id = `page-${Date.now().toString(36)}-${questions}`;
    this.isRunning = true;
    this.wasCancelled = false;
    if (follow) this.#follow();
    try {
      const answer = await ask({ signal: controller.signal, questionId: this.#id });
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

  /** Stops waiting on somebody's wish, and tells the server. */
  cancel(): void {
    if (!this.isRunning) return;
    this.drop();
    this.wasCancelled = true;
  }

  /** Stops waiting because nobody looks any more. */
  drop(): void {
    if (!this.isRunning) return;
    const id = this.#id;
    this.#end();
    request(`questions/${encodeURIComponent(id)}`, {}, { method: "DELETE" }).catch(() => undefined);
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

  #follow(): void {
    const id = this.#id;
    this.#poll = setInterval(async () => {
      const running = await request<RunningQuestion[] | Record<string, RunningQuestion[]>>("questions").catch(() => []);
      const found = listOf(running, "questions").find((question) => question.id === id);
      if (found && this.#id === id && this.isRunning) this.rowsRead = Number(found.rows_read);
    }, 700);
  }
}
