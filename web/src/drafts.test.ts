import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { keepDraft, readDraft, readDraftTag, rebaseDraft } from "./drafts.ts";

describe("drafts", () => {
  const kept = new Map<string, string>();

  beforeEach(() => {
    vi.stubGlobal("sessionStorage", {
      getItem: (name: string) => kept.get(name) ?? null,
      setItem: (name: string, value: string) => void kept.set(name, value),
      removeItem: (name: string) => void kept.delete(name),
    });
  });

  afterEach(() => {
    vi.unstubAllGlobals();
    kept.clear();
  });

  it("are based on the file as it was when they were begun", () => {
    keepDraft("watch.scan", "a", '"1"');
    // The page was loaded again, and somebody else has changed the file.
    keepDraft("watch.scan", "ab", '"2"');
    expect([readDraft("watch.scan"), readDraftTag("watch.scan")]).toEqual(["ab", '"1"']);
    rebaseDraft("watch.scan", '"2"');
    expect([readDraft("watch.scan"), readDraftTag("watch.scan")]).toEqual(["ab", '"2"']);
  });

  it("leave nothing behind", () => {
    keepDraft("watch.scan", "a", '"1"');
    keepDraft("watch.scan", null);
    expect(kept.size).toBe(0);
    keepDraft("watch.scan", "b", '"2"');
    expect(readDraftTag("watch.scan")).toBe('"2"');
    // A tag without a draft is of one that is over.
    kept.delete("weir.draft.watch.scan");
    expect(readDraftTag("watch.scan")).toBeNull();
  });

  it("need no tag", () => {
    keepDraft("sql", "SELECT 1");
    expect([readDraft("sql"), readDraftTag("sql")]).toEqual(["SELECT 1", null]);
  });
});
