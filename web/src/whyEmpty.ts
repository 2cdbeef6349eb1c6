// Why a table or a picture is empty, in a sentence.
import type { WhyEmpty } from "./api.ts";
import { dateTime } from "./times.ts";

/**
 * A title, and a sentence where more is known. A server that says nothing leaves it at that no flows match. A question that failed
 * found out nothing about flows, whatever the one before it found.
 */
export function whyEmpty(why: WhyEmpty | null | undefined, hasFailed: boolean): { title: string; sentence: string } {
  if (hasFailed) return { title: "Not answered", sentence: "What is wrong with the question is shown with it." };
  if (!why) return { title: "No flows match", sentence: "" };
  const title = why.text.charAt(0).toUpperCase() + why.text.slice(1);
  if (why.first_ms === null || why.last_ms === null) return { title, sentence: "" };
  return { title, sentence: `The archive has flows from ${dateTime(why.first_ms)} to ${dateTime(why.last_ms)}.` };
}
