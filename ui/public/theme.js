// Sets the theme before the first paint: the saved choice, or the system setting.
(() => {
  const chosen = localStorage.getItem("windlass.theme");
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
