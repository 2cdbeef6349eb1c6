// Dashboards: files of TOML, whose panels are questions as text.
import type { Dashboard } from "./api.ts";
import { request, type RequestOptions } from "./client.ts";

export const NAME = /^[\w-]+$/;

/** A text as TOML has it, between quotes. */
export function quoted(text: string): string {
  // Escapes of JSON are escapes of TOML, but for the ones of pairs, which JSON.stringify writes for halves of them only.
  return JSON.stringify(text).replace(/\u007f/g, "\\u007f");
}

export function newDashboard(title: string): string {
  return `title = ${quoted(title)}\n`;
}

/** The file with one more panel at its end; all that is there stays as it is, comments too. */
export function withPanel(file: string, title: string, question: string): string {
  const begin = file === "" || file.endsWith("\n") ? file : `${file}\n`;
  return `${begin}\n[[panels]]\ntitle = ${quoted(title)}\nquestion = ${quoted(question)}\n`;
}

export function pathOf(name: string): string {
  return `dashboards/${encodeURIComponent(name)}`;
}

export function writeDashboard(name: string, text: string, options: RequestOptions = {}): Promise<Dashboard> {
  return request<Dashboard>(pathOf(name), {}, { ...options, method: "PUT", body: text });
}
