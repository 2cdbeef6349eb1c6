// Why a table or a picture is empty, in a sentence.
import type { WhyEmpty } from "./api.ts";
import { dateTime } from "./times.ts";

/** A title, and a sentence where more is known. A server that says nothing leaves it at that no flows match. */
export function whyEmpty(why: WhyEmpty | null | undefined): { title: string; sentence: string } {
  if (!why) return { title: "No flows match", sentence: "" };
  const title = why.text.charAt(0).toUpperCase() + why.text.slice(1);
  if (why.first_ms === null || why.last_ms === null) return { title, sentence: "" };
  return { title, sentence: `The archive has flows from ${dateTime(why.first_ms)} to ${dateTime(why.last_ms)}.` };
}
