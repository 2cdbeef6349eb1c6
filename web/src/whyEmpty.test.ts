import { describe, expect, it } from "vitest";
import { dateTime } from "./times.ts";
import { whyEmpty } from "./whyEmpty.ts";

describe("why an answer is empty", () => {
  it("is what the server says, with how far the archive reaches", () => {
    const [first_ms, last_ms] = [1_764_000_000_000, 1_764_003_600_000];
    expect(whyEmpty({ text: "no flows of this time", first_ms, last_ms }, false)).toEqual({
      title: "No flows of this time",
      sentence: `The archive has flows from ${dateTime(first_ms)} to ${dateTime(last_ms)}.`,
    });
    expect(whyEmpty({ text: "no flow passes the filter", first_ms: null, last_ms: null }, false)).toEqual({ title: "No flow passes the filter", sentence: "" });
  });

  it("is not guessed when a server says nothing", () => {
    expect(whyEmpty(null, false)).toEqual({ title: "No flows match", sentence: "" });
    expect(whyEmpty(undefined, false).title).toBe("No flows match");
  });

  it("is not known of a question that failed, whatever the one before it found", () => {
    const failed = { title: "Not answered", sentence: "What is wrong with the question is shown with it." };
    expect(whyEmpty(null, true)).toEqual(failed);
    expect(whyEmpty({ text: "no flows of this time", first_ms: 1, last_ms: 2 }, true)).toEqual(failed);
  });
});
