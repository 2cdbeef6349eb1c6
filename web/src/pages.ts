// The pages: name, key after `g`, and where they come from. Each is loaded when it is first shown.
import type { Component } from "svelte";
import type { Role, User } from "./api.ts";
import type { IconName } from "./parts/icons.ts";

export interface Page {
  name: string;
  title: string;
  key: string;
  icon: IconName;
  /** Not in the navigation. */
  isHidden?: boolean;
  /** Not for who sees a part of the flows. */
  needsAll?: boolean;
  /** The least role that it is for; without it every role may ask what it shows. */
  role?: Role;
  load: () => Promise<{ default: Component }>;
}

const THINGS = [["host", "Host"], ["as", "AS"], ["service", "Service"], ["interface", "Interface"], ["exporter", "Exporter"]] as const;

export const PAGES: Page[] = [
  { name: "now", title: "Now", key: "n", icon: "pulse", needsAll: true, load: () => import("./pages/Now.svelte") },
  { name: "explore", title: "Explore", key: "e", icon: "chart", load: () => import("./pages/Explore.svelte") },
  { name: "flows", title: "Flows", key: "f", icon: "list", load: () => import("./pages/Flows.svelte") },
  { name: "sql", title: "SQL", key: "s", icon: "terminal", role: "analyst", load: () => import("./pages/Sql.svelte") },
  { name: "exporters", title: "Exporters", key: "x", icon: "router", needsAll: true, load: () => import("./pages/Exporters.svelte") },
  { name: "watches", title: "Watches", key: "w", icon: "eye", needsAll: true, load: () => import("./pages/Watches.svelte") },
  { name: "reports", title: "Reports", key: "r", icon: "bell", needsAll: true, load: () => import("./pages/Reports.svelte") },
  { name: "series", title: "Series", key: "t", icon: "wave", needsAll: true, load: () => import("./pages/Series.svelte") },
  { name: "dashboards", title: "Dashboards", key: "d", icon: "grid", needsAll: true, load: () => import("./pages/Dashboards.svelte") },
  { name: "archive", title: "Archive", key: "a", icon: "box", needsAll: true, load: () => import("./pages/Archive.svelte") },
  ...THINGS.map(([name, title]): Page => ({ name, title, key: "", icon: "search", isHidden: true, load: () => import("./pages/Thing.svelte") })),
];

/** Roles, each of which may do what those before it may. */
const ROLES: Role[] = ["ingest", "viewer", "analyst", "admin"];

/** Whether somebody has a role, or one that may do more. As long as nobody is known, nothing is hidden. */
export function hasRole(user: User | null, role: Role): boolean {
  return user === null || ROLES.indexOf(user.role) >= ROLES.indexOf(role);
}

/** Why a page is not for somebody, as a sentence; null when it is. */
export function refusalOf(page: Page, user: User | null): string | null {
  if (page.needsAll && user?.sees_all === false) return "Your role sees a part of the flows, and this page is about all of them.";
  if (user !== null && page.role !== undefined && !hasRole(user, page.role)) return `You are ${user.role}, and this page takes ${page.role}.`;
  return null;
}
