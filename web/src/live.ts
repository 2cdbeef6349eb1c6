// Server-sent events that come back: the browser tries again after a broken line, but not after an answer such as 503.
import type { Live } from "./api.ts";

export type LiveState = "connecting" | "live" | "stale" | "waiting";

export interface Source {
  onopen: ((event: Event) => void) | null;
  onmessage: ((event: MessageEvent<string>) => void) | null;
  onerror: ((event: Event) => void) | null;
  readonly readyState: number;
  addEventListener?(name: string, listener: (event: MessageEvent<string>) => void): void;
  close(): void;
}

export interface Clock {
  setTimeout(run: () => void, ms: number): number;
  clearTimeout(id: number): void;
}

export interface LiveOptions {
  open: () => Source;
  clock: Clock;
  onLive: (live: Live) => void;
  onState: (state: LiveState, retryMs: number) => void;
}

const CLOSED = 2;
/** One event a second is promised: without one for this long the numbers are old. */
export const STALE_MS = 5_000;
/** A connection that shows nothing for this long is opened again. */
export const DEAD_MS = 30_000;
export const RETRY_FIRST_MS = 1_000;
export const RETRY_MAX_MS = 30_000;

export class LiveStream {
  #options: LiveOptions;
  #source: Source | null = null;
  #retryMs = RETRY_FIRST_MS;
  #timers: number[] = [];

  constructor(options: LiveOptions) {
    this.#options = options;
  }

  start(): void {
    this.#clear();
    this.#source?.close();
    this.#options.onState("connecting", 0);
    const source = this.#options.open();
    this.#source = source;
    const take = (event: MessageEvent<string>) => this.#take(event.data);
    source.onmessage = take;
    source.addEventListener?.("live", take);
    source.onerror = () => {
      if (source !== this.#source) return;
      if (source.readyState === CLOSED) this.#again();
      else this.#options.onState("connecting", 0);
    };
    this.#watch();
  }

  stop(): void {
    this.#clear();
    this.#source?.close();
    this.#source = null;
  }

  #take(data: string): void {
    let live: Live;
    try {
      live = JSON.parse(data) as Live;
    } catch {
      return;
    }
    this.#retryMs = RETRY_FIRST_MS;
    this.#options.onState("live", 0);
    this.#options.onLive(live);
    this.#watch();
  }

  #watch(): void {
    this.#clear();
    const { clock, onState } = this.#options;
    this.#timers = [clock.setTimeout(() => onState("stale", 0), STALE_MS), clock.setTimeout(() => this.#again(), DEAD_MS)];
  }

  #again(): void {
    this.#clear();
    this.#source?.close();
    this.#source = null;
    const wait = this.#retryMs;
    this.#retryMs = Math.min(wait * 2, RETRY_MAX_MS);
    this.#options.onState("waiting", wait);
    this.#timers = [this.#options.clock.setTimeout(() => this.start(), wait)];
  }

  #clear(): void {
    for (const timer of this.#timers) this.#options.clock.clearTimeout(timer);
    this.#timers = [];
  }
}
