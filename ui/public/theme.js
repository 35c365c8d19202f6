// Before the first paint: the theme that was chosen, or else that of the system.
(() => {
  const chosen = localStorage.getItem("windlass.theme");
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
