// Light, dark, or as the system has it.
import { keepSetting, readSetting } from "./drafts.ts";

export type Theme = "system" | "light" | "dark";

const system = window.matchMedia("(prefers-color-scheme: dark)");

class ThemeSwitch {
  chosen: Theme = $state(readTheme());
  #systemIsDark = $state(system.matches);

  constructor() {
    system.addEventListener("change", () => {
      this.#systemIsDark = system.matches;
    });
  }

  get isDark(): boolean {
    return this.chosen === "dark" || (this.chosen === "system" && this.#systemIsDark);
  }

  choose(theme: Theme): void {
    this.chosen = theme;
    keepSetting("theme", theme === "system" ? null : theme);
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  }

  next(): void {
    this.choose(this.chosen === "system" ? (this.isDark ? "light" : "dark") : this.chosen === "dark" ? "light" : "dark");
  }
}

function readTheme(): Theme {
  const kept = readSetting("theme");
  return kept === "light" || kept === "dark" ? kept : "system";
}

export const theme = new ThemeSwitch();

/** The colours of pictures, as they are now: a canvas knows no variables of style sheets. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export const SERIES_COLOURS = 10;

export function seriesColour(at: number, name: string): string {
  return name === "other" ? colour("series-other") : colour(`series-${(at % SERIES_COLOURS) + 1}`);
}
