// The light or dark theme: the saved choice, or the system setting.

import { useState } from "react";

export function useTheme(): [string, () => void] {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "light");
  const toggle = () => {
    const next = theme === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("windlass.theme", next);
    setTheme(next);
  };
  return [theme, toggle];
}
