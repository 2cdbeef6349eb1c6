// Places in texts: the server counts octets of UTF-8, the page counts UTF-16 units.

/** The index of an octet; inside of a character the index of its begin. */
export function indexOfOctet(text: string, octet: number): number {
  let octets = 0;
  let index = 0;
  for (const c of text) {
    const point = c.codePointAt(0) ?? 0;
    const size = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (octets + size > octet) return index;
    octets += size;
    index += c.length;
  }
  return index;
}

export function octetOfIndex(text: string, index: number): number {
  return new TextEncoder().encode(text.slice(0, index)).length;
}

export interface Marked {
  line: number;
  before: string;
  wrong: string;
  after: string;
}

/** The line of a text with a mistake, cut around it. At the end, where something is missing, `wrong` is empty. */
export function marked(text: string, fromOctet: number, toOctet: number): Marked {
  const from = indexOfOctet(text, fromOctet);
  const lineBegin = text.lastIndexOf("\n", from - 1) + 1;
  const lineEnd = text.indexOf("\n", from) < 0 ? text.length : text.indexOf("\n", from);
  const to = Math.min(Math.max(indexOfOctet(text, toOctet), from), lineEnd);
  return {
    line: text.slice(0, lineBegin).split("\n").length,
    before: text.slice(lineBegin, from),
    wrong: text.slice(from, to),
    after: text.slice(to, lineEnd),
  };
}

/** Where the word before the cursor begins: what a completion replaces. */
export function wordBegin(text: string, cursor: number): number {
  const before = text.slice(0, cursor);
  return before.length - (/[^\s()[\],!]*$/.exec(before)?.[0].length ?? 0);
}
