import { describe, expect, it } from "vitest";
import type { Live } from "./api.ts";
import { type Clock, DEAD_MS, LiveStream, type LiveState, RETRY_MAX_MS, type Source, STALE_MS } from "./live.ts";

/** A clock that goes when it is told to. */
class TestClock implements Clock {
  now = 0;
  #timers = new Map<number, { at: number; run: () => void }>();
  #next = 1;
  setTimeout(run: () => void, ms: number): number {
    this.#timers.set(this.#next, { at: this.now + ms, run });
    return this.#next++;
  }
  clearTimeout(id: number): void {
    this.#timers.delete(id);
  }
  advance(ms: number): void {
    const end = this.now + ms;
    for (;;) {
      const due = [...this.#timers].filter(([, timer]) => timer.at <= end).sort((a, b) => a[1].at - b[1].at)[0];
      if (!due) break;
      this.#timers.delete(due[0]);
      this.now = due[1].at;
      due[1].run();
    }
    this.now = end;
  }
  get waiting(): number {
    return this.#timers.size;
  }
}

class TestSource implements Source {
  onopen = null;
  onmessage: ((event: MessageEvent<string>) => void) | null = null;
  onerror: ((event: Event) => void) | null = null;
  readyState = 1;
  close(): void {
    this.readyState = 2;
  }
  send(live: Partial<Live>): void {
    this.onmessage?.({ data: JSON.stringify(live) } as MessageEvent<string>);
  }
  refuse(): void {
    this.readyState = 2;
    this.onerror?.({} as Event);
  }
}

function setUp() {
  const clock = new TestClock();
  const sources: TestSource[] = [];
  const states: string[] = [];
  const times: number[] = [];
  const stream = new LiveStream({
    clock,
    open: () => {
      const source = new TestSource();
      sources.push(source);
      return source;
    },
    onLive: (live) => times.push(live.time_ms),
    onState: (state: LiveState, retryMs) => states.push(retryMs > 0 ? `${state} ${retryMs}` : state),
  });
  stream.start();
  return { clock, sources, states, times, stream, last: () => sources[sources.length - 1] as TestSource };
}

describe("the live stream", () => {
  it("says when its numbers are old, and that they are new again", () => {
    const { clock, states, last } = setUp();
    last().send({ time_ms: 1 });
    clock.advance(STALE_MS);
    last().send({ time_ms: 2 });
    expect(states).toEqual(["connecting", "live", "stale", "live"]);
  });

  it("comes back after a refusal, later each time, and at once again after success", () => {
    const { clock, sources, states, last } = setUp();
    for (let at = 0; at < 8; at += 1) {
      last().refuse();
      clock.advance(RETRY_MAX_MS);
    }
    expect(states.filter((state) => state.startsWith("waiting"))).toEqual(
      [1, 2, 4, 8, 16, 30, 30, 30].map((s) => `waiting ${s * 1000}`),
    );
    expect(sources).toHaveLength(9);
    last().send({ time_ms: 1 });
    last().refuse();
    expect(states.at(-1)).toBe("waiting 1000");
  });

  it("opens a connection again that shows nothing", () => {
    const { clock, sources } = setUp();
    clock.advance(DEAD_MS + 1000);
    expect(sources).toHaveLength(2);
    expect(sources[0]?.readyState).toBe(2);
  });

  it("passes over what is no JSON", () => {
    const { times, last } = setUp();
    last().onmessage?.({ data: "{" } as MessageEvent<string>);
    last().send({ time_ms: 5 });
    expect(times).toEqual([5]);
  });

  it("leaves nothing behind when it stops", () => {
    const { clock, stream, sources } = setUp();
    stream.stop();
    expect(clock.waiting).toBe(0);
    expect(sources[0]?.readyState).toBe(2);
  });
});
