// The page and its parameters are in the fragment of the address: `#/explore?filter=proto+tcp`.
import { type Parameters, parseParameters, printParameters } from "./question.ts";

export interface Route {
  page: string;
  /** What follows the page, such as an address: `#/host/192.0.2.0/24`. */
  argument: string;
  parameters: Parameters;
}

export function parseHash(hash: string): Route {
  const text = hash.replace(/^#\/?/, "");
  const at = text.indexOf("?");
  const path = at < 0 ? text : text.slice(0, at);
  const slash = path.indexOf("/");
  return {
    page: (slash < 0 ? path : path.slice(0, slash)) || "now",
    argument: slash < 0 ? "" : safeDecode(path.slice(slash + 1)),
    parameters: parseParameters(at < 0 ? "" : text.slice(at + 1)),
  };
}

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

class Router {
  route: Route = $state.raw(parseHash(location.hash));
  #hash = location.hash;

  constructor() {
    // A step of the browser is told twice; a question is asked once.
    const changed = () => {
      if (location.hash !== this.#hash) this.#read();
    };
    window.addEventListener("hashchange", changed);
    window.addEventListener("popstate", changed);
  }

  /** Goes to an address of these pages; `replace` leaves no step back. The same address again asks again. */
  go(address: string, replace = false): void {
    if (address === location.hash) return this.#read();
    if (replace) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
    this.#read();
  }

  /** Changes parameters of this page; empty values are left out. */
  set(changes: Record<string, string>, replace = false): void {
    const parameters = new Map(this.route.parameters);
    for (const [name, value] of Object.entries(changes)) {
      if (value === "") parameters.delete(name);
      else parameters.set(name, value);
    }
    const text = printParameters(parameters);
    const path = this.route.argument === "" ? this.route.page : `${this.route.page}/${this.route.argument}`;
    this.go(`#/${path}${text === "" ? "" : `?${text}`}`, replace);
  }

  get(name: string): string {
    return this.route.parameters.get(name) ?? "";
  }

  #read(): void {
    this.#hash = location.hash;
    this.route = parseHash(location.hash);
  }
}

export const router = new Router();
