// What is said next to counts: whether they are scaled by sampling, where that makes a difference.
import type { Sampling } from "./api.ts";
import { exact, toNumber } from "./units.ts";

/** Short, for a mark; nothing where no flow was sampled and nothing is scaled: then measured and scaled are the same. */
export function mark(sampling: Sampling | null | undefined): string {
  if (!sampling) return "";
  if (sampling.is_scaled) return "scaled by sampling";
  return sampling.has_sampled ? "not scaled" : "";
}

const BY: Record<Sampling["by"], string> = {
  none: "packets and bytes are as measured: some of these flows were sampled, and stand for more",
  reported: "packets and bytes are multiplied by the sampling interval that exporters reported",
  corrections: "packets and bytes are multiplied by the sampling interval of the file of corrections, or else by that which exporters reported",
};

/** The same in a sentence, with the numbers of flows where they are known. */
export function sentence(sampling: Sampling): string {
  const parts = [BY[sampling.by]];
  const add = (count: number | string | null, what: string) => {
    if (count !== null && toNumber(count) > 0) parts.push(`${exact(count)} ${toNumber(count) === 1 ? "flow" : "flows"} ${what}`);
  };
  add(sampling.sampled_flows, "sampled");
  add(sampling.unknown_flows, "of exporters that do not report it");
  return parts.join("; ");
}

/** What is said where flows are saved: a file has them as they were received. */
export const DOWNLOAD_NOTE = "Packets and bytes are as measured, never scaled: multiply by sampling_interval, a column of CSV and Parquet.";

/** Words of a filter about what scaling changes. */
const COUNTED = /(^|[^\w-])(bytes|packets|bps|pps)(?![\w-])/i;

/** What is said above a list of flows that a scaled question led to: the list has no scaled counts, and its filter means measured ones. */
export function listNote(question: { scaled: boolean; filter: string }): string {
  if (!question.scaled) return "";
  const counts = "Packets and bytes of single flows are as measured; scaled they are times sampling_interval.";
  return COUNTED.test(question.filter) ? `${counts} The filter means measured ones here, so it takes other flows than where they are scaled.` : counts;
}
