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
