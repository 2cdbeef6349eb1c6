import { describe, expect, it } from "vitest";
import type { User } from "./api.ts";
import { hasRole, PAGES, refusalOf } from "./pages.ts";

const shown = (user: User | null) => PAGES.filter((page) => !page.isHidden && refusalOf(page, user) === null).map((page) => page.name);

describe("pages", () => {
  const all = ["now", "explore", "flows", "sql", "exporters", "watches", "reports", "series", "dashboards", "archive"];

  it("are all for who may ask everything, and while nobody is known", () => {
    for (const user of [null, { name: "ann", role: "analyst" }, { name: "eve", role: "admin", sees_all: true }] satisfies (User | null)[]) expect(shown(user)).toEqual(all);
  });

  it("of statements are not for viewers", () => {
    expect(shown({ name: "vic", role: "viewer", sees_all: true })).toEqual(all.filter((name) => name !== "sql"));
    const sql = PAGES.find((page) => page.name === "sql")!;
    expect(refusalOf(sql, { name: "vic", role: "viewer" })).toBe("You are viewer, and this page takes analyst.");
  });

  it("about all flows are not for who sees a part of them", () => {
    expect(shown({ name: "bob", role: "analyst", sees_all: false })).toEqual(["explore", "flows", "sql"]);
    expect(shown({ name: "bea", role: "viewer", sees_all: false })).toEqual(["explore", "flows"]);
  });

  it("go by roles of which each may do more than the one before", () => {
    expect(hasRole({ name: "eve", role: "admin" }, "analyst")).toBe(true);
    expect(hasRole({ name: "vic", role: "viewer" }, "analyst")).toBe(false);
  });
});
