// Reports of watches, shared by the pages that show them.
import type { Report } from "./api.ts";
import { asProblem, type Problem, request } from "./client.ts";

export interface ReportQuestion {
  since?: string;
  watch?: string;
  limit?: number;
}

export class Reports {
  list: Report[] | null = $state.raw(null);
  problem: Problem | null = $state.raw(null);

  async load(question: ReportQuestion): Promise<void> {
    try {
      const answer = await request<Report[]>("reports", { ...question });
      this.list = answer.toSorted((a, b) => b.window_end - a.window_end);
      this.problem = null;
    } catch (error) {
      this.problem = asProblem(error);
    }
  }

  get open(): Report[] {
    return (this.list ?? []).filter((report) => !report.acknowledged);
  }

  /** Silences the key of a report, as `weir watch ack` does. */
  async acknowledge(report: Report): Promise<void> {
    try {
      await request("reports/ack", {}, { method: "POST", body: { watch: report.watch, key: report.key === "" ? undefined : report.key, for: "7d" } });
      const isSame = (each: Report) => each.watch === report.watch && each.key === report.key;
      this.list = (this.list ?? []).map((each) => (isSame(each) ? { ...each, acknowledged: true } : each));
      this.problem = null;
    } catch (error) {
      this.problem = asProblem(error);
    }
  }
}
