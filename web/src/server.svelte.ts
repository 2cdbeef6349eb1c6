// What all pages share: who serves, the columns of flows, and the live stream.
import type { Column, Info, Live, User } from "./api.ts";
import { addressOfApi, asProblem, type Problem, request } from "./client.ts";
import { type LiveState, LiveStream } from "./live.ts";
import { followed, isMissing, joined, type Second } from "./seconds.ts";

/** A page that nobody sees gives its connection back after this time: a browser has six for a server, over all its tabs. */
const UNSEEN_MS = 5_000;

class Server {
  info: Info | null = $state.raw(null);
  columns: Column[] = $state.raw([]);
  problem: Problem | null = $state.raw(null);
  live: Live | null = $state.raw(null);
  liveState: LiveState = $state("connecting");
  retryMs = $state(0);
  history: Second[] = $state.raw([]);
  /** Grows when there are seconds before the stream, or in it, that nobody saw. */
  missing = $state(0);
  #stream: LiveStream | null = null;
  #unseen: ReturnType<typeof setTimeout> | undefined;
  #isAway = false;

  /** Whether somebody must sign in before anything is answered. */
  get isClosed(): boolean {
    return this.info !== null && this.info.has_users && this.info.user === null;
  }

  /** Who asks; null as long as that is not known. */
  get user(): User | null {
    return this.info?.user ?? null;
  }

  /** Whether books, watches, statistics and rates are for who asks. */
  get seesAll(): boolean {
    return this.user?.sees_all !== false;
  }

  async load(): Promise<void> {
    try {
      this.info = await request<Info>("info");
      if (this.isClosed) return;
      this.columns = await request<Column[]>("columns");
      this.problem = null;
    } catch (error) {
      this.problem = asProblem(error);
    }
  }

  async signIn(name: string, password: string): Promise<void> {
    await request<User>("session", {}, { method: "POST", body: { name, password } });
    await this.load();
    this.listen();
  }

  async signOut(): Promise<void> {
    await request("session", {}, { method: "DELETE" }).catch(() => undefined);
    location.reload();
  }

  listen(): void {
    if (!this.seesAll) return;
    this.#stream ??= new LiveStream({
      open: () => new EventSource(addressOfApi("live")),
      clock: { setTimeout: (run, ms) => window.setTimeout(run, ms), clearTimeout: (id) => window.clearTimeout(id) },
      onLive: (live) => {
        this.live = live;
        if (isMissing(this.history, live.time_ms)) this.missing += 1;
        this.history = followed(this.history, live);
      },
      onState: (state, retryMs) => {
        const isBack = state === "live" && this.liveState !== "live" && this.problem !== null;
        this.liveState = state;
        this.retryMs = retryMs;
        if (isBack) void this.load();
      },
    });
    this.#stream.start();
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.#unseen);
      if (document.hidden) {
        this.#isAway = false;
        this.#unseen = setTimeout(() => {
          this.#isAway = true;
          this.#stream?.stop();
        }, UNSEEN_MS);
      } else if (this.#isAway) {
        this.#isAway = false;
        this.#stream?.start();
      }
    });
  }

  /** Asks for the seconds of the last five minutes that nobody saw here. */
  async loadSeconds(): Promise<void> {
    // Without them the picture begins with the stream.
    const kept = await request<Second[]>("live/seconds").catch(() => []);
    this.history = joined(kept, this.history);
  }

  column(name: string): Column {
    return this.columns.find((column) => column.name === name) ?? { name, label: name, type: "text" };
  }
}

export const server = new Server();
