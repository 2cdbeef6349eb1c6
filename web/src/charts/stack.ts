// Numbers of pictures: sums of stacked series, and the two colours between which a heatmap is.

export type Values = (number | null)[];

/**
 * What is drawn for stacked series: the sum of all series up to each, the highest first, so that the lower ones are painted over it.
 * A step of which no series has a value is a gap and not nothing.
 */
export function stacked(series: Values[]): Values[] {
  const out: Values[] = [];
  const length = series[0]?.length ?? 0;
  const sums: Values = Array.from({ length }, () => null);
  for (const values of series) {
    for (let at = 0; at < length; at += 1) {
      const value = values[at] ?? null;
      if (value !== null) sums[at] = (sums[at] ?? 0) + value;
    }
    out.unshift([...sums]);
  }
  // Where a series has no value but one above or below has, its line goes on at the height of the sum below.
  const isKnown = Array.from({ length }, (_, at) => series.some((values) => (values[at] ?? null) !== null));
  return out.map((values) => values.map((value, at) => (isKnown[at] ? (value ?? 0) : null)));
}

export function total(series: Values[]): Values {
  return stacked(series)[0] ?? [];
}

export interface Summary {
  mean: number;
  max: number;
}

/** Over the steps that are known. */
export function summary(values: Values): Summary {
  const known = values.filter((value): value is number => value !== null);
  const sum = known.reduce((a, b) => a + b, 0);
  return { mean: known.length === 0 ? 0 : sum / known.length, max: known.reduce((a, b) => Math.max(a, b), 0) };
}

/** A colour between two of `#rrggbb`. */
export function between(low: string, high: string, part: number): string {
  const channel = (at: number) => {
    const [a, b] = [Number.parseInt(low.slice(at, at + 2), 16), Number.parseInt(high.slice(at, at + 2), 16)];
    return Math.round(a + (b - a) * part);
  };
  return `rgb(${channel(1)} ${channel(3)} ${channel(5)})`;
}
