// Keys of all pages. Letters do nothing while somebody types.
import { PAGES } from "./pages.ts";

export interface ShortcutActions {
  go: (page: string) => void;
  help: () => void;
  theme: () => void;
  zone: () => void;
}

/** How long the second key of `g n` may take. */
const SECOND_KEY_MS = 1500;

export const KEYS: { keys: string; effect: string }[] = [
  { keys: "?", effect: "show or hide these keys" },
  { keys: "/", effect: "go to the filter, or the statement" },
  { keys: "i", effect: "look up an address, a network, an AS, a port" },
  ...PAGES.filter((page) => !page.isHidden).map((page) => ({ keys: `g ${page.key}`, effect: page.title })),
  { keys: "d", effect: "dark or light" },
  { keys: "u", effect: "times in UTC, or in your zone" },
  { keys: "Ctrl Enter", effect: "ask (in a filter, Enter does too)" },
  { keys: "Ctrl Space", effect: "complete the word in a filter" },
  { keys: "Esc", effect: "close, or cancel the question that runs" },
  { keys: "[  ]", effect: "earlier, later (Explore, Flows, pages of hosts)" },
  { keys: "+  −", effect: "zoom into the time, out of it" },
  { keys: "j  k", effect: "next, previous value of the tables, or flow; Enter goes there" },
  { keys: "h  l", effect: "back to the page before, and forth again" },
];

export class Shortcuts {
  #actions: ShortcutActions;
  #goAtMs = 0;

  constructor(actions: ShortcutActions) {
    this.#actions = actions;
  }

  listen(target: Window): () => void {
    const listener = (event: KeyboardEvent) => this.#take(event);
    target.addEventListener("keydown", listener);
    return () => target.removeEventListener("keydown", listener);
  }

  #take(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const key = event.key;
    const page = PAGES.find((each) => each.key === key && !each.isHidden);
    if (page && event.timeStamp - this.#goAtMs < SECOND_KEY_MS && this.#goAtMs > 0) {
      this.#goAtMs = 0;
      this.#actions.go(page.name);
    } else if (key === "g") {
      this.#goAtMs = event.timeStamp;
      return;
    } else if (key === "?") this.#actions.help();
    else if (key === "d") this.#actions.theme();
    else if (key === "u") this.#actions.zone();
    else if (key === "/") focusOn("[data-shortcut='/']");
    else if (key === "i") focusOn("[data-shortcut='i']");
    else if (key === "h") history.back();
    else if (key === "l") history.forward();
    else if ((key === "j" || key === "k") && moveInTables(key === "j" ? 1 : -1)) return event.preventDefault();
    else return;
    event.preventDefault();
  }
}

export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) && !/^(checkbox|radio|button)$/.test((target as HTMLInputElement).type);
}

function focusOn(selector: string): void {
  const found = document.querySelector<HTMLInputElement>(selector);
  found?.focus();
  found?.select();
}

/** Goes to the next link in the tables of the page; a list of flows has rows of its own. */
function moveInTables(by: 1 | -1): boolean {
  if (document.querySelector("[data-rows]")) return false;
  const links = [...document.querySelectorAll<HTMLElement>("main tbody a[href]")];
  if (links.length === 0) return false;
  const at = links.indexOf(document.activeElement as HTMLElement);
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by));
  links[next]?.focus();
  return true;
}
