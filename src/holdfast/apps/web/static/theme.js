// Runs before anything is drawn, so that a page never flashes in the other colours.
(() => {
  "use strict";
  try {
    const chosen = localStorage.getItem("holdfast-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch { /* a browser that keeps nothing: the system's colours */ }
})();
