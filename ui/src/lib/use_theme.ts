// Light or dark, as chosen here before, or else as the system is.

import { useState } from "react";

export function useTheme(): [string, () => void] {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "light");
  const turn = () => {
    const next = theme === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("windlass.theme", next);
    setTheme(next);
  };
  return [theme, turn];
}
