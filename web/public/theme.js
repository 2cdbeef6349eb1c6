// Sets the theme before the first paint. A file of its own, because the content security policy refuses inline scripts.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("weir.theme");
  } catch {
    // Storage may be forbidden; the theme of the system is used then.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
