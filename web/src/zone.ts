// Times in the zone of the reader, or in UTC. Every text of every page depends on it, so the page is loaded again; what was typed
// is kept.
import { keepSetting, readSetting } from "./drafts.ts";

export function switchZone(): void {
  keepSetting("zone", readSetting("zone") === "UTC" ? null : "UTC");
  location.reload();
}
