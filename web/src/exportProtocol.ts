const NAMES: Record<number, string> = { 1: "NetFlow v1", 5: "NetFlow v5", 7: "NetFlow v7", 9: "NetFlow v9", 10: "IPFIX", 105: "sFlow v5" };

/** The name of a version of the export protocol, as the books have it. */
export const protocolOf = (version: number | null): string => (version === null ? "not known" : (NAMES[version] ?? `version ${version}`));

/** What the books have one line for: an address may send several protocols with one number. */
export const booksKeyOf = (books: { exporter: string | null; domain: number | null; version: number | null }): string =>
  `${books.exporter} ${books.domain} ${books.version}`;
