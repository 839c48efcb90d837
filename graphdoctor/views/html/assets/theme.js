// Set the last chosen theme before anything is painted, so nothing flashes.
"use strict";
(() => {
  document.documentElement.classList.add("scripted");
  try {
    const chosen = localStorage.getItem("graphdoctor-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // A sandboxed frame has no storage; the system's theme applies.
  }
})();
