// What is typed and not yet asked. It is kept for the session, so that nothing is lost when a page is left or loaded again.

export function readDraft(name: string): string | null {
  try {
    return sessionStorage.getItem(`weir.draft.${name}`);
  } catch {
    return null;
  }
}

/** Null forgets it. */
export function keepDraft(name: string, text: string | null): void {
  try {
    if (text === null) sessionStorage.removeItem(`weir.draft.${name}`);
    else sessionStorage.setItem(`weir.draft.${name}`, text);
  } catch {
    // Storage is full or forbidden: the text is still in its field.
  }
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
