// What is typed and not yet asked. It is kept for the session, so that nothing is lost when a page is left or loaded again.

export function readDraft(name: string): string | null {
  try {
    return sessionStorage.getItem(`weir.draft.${name}`);
  } catch {
    return null;
  }
}

/** Null forgets it. A draft of a file has the tag of the file that it was begun from, whatever the file becomes later. */
export function keepDraft(name: string, text: string | null, tag?: string): void {
  try {
    if (text === null) {
      sessionStorage.removeItem(`weir.draft.${name}`);
      sessionStorage.removeItem(`weir.draft.${name}.etag`);
      return;
    }
    if (tag !== undefined && readDraft(name) === null) sessionStorage.setItem(`weir.draft.${name}.etag`, tag);
    sessionStorage.setItem(`weir.draft.${name}`, text);
  } catch {
    // Storage is full or forbidden: the text is still in its field.
  }
}

/** The tag of the file that a draft is based on. */
export function readDraftTag(name: string): string | null {
  return readDraft(name) === null ? null : readDraft(`${name}.etag`);
}

/** From now on a draft is based on another file. */
export function rebaseDraft(name: string, tag: string): void {
  if (readDraft(name) !== null) keepDraft(`${name}.etag`, tag);
}

/** A value that is kept on this machine, such as the chosen columns. */
export function readSetting(name: string): string | null {
  try {
    return localStorage.getItem(`weir.${name}`);
  } catch {
    return null;
  }
}

export function keepSetting(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(`weir.${name}`);
    else localStorage.setItem(`weir.${name}`, value);
  } catch {
    // As above.
  }
}
