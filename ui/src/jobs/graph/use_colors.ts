// The theme's colors for drawing on a canvas, updated when the theme changes.

import { useEffect, useState } from "react";
import { TONES } from "./tones";

export interface Colors {
  paper: string;
  surface: string;
  sunken: string;
  line: string;
  ink: string;
  muted: string;
  accent: string;
  /** By the index of the tone. */
  tones: string[];
}

function readColors(): Colors {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string) => style.getPropertyValue(`--${name}`).trim() || "#888888";
  return {
    paper: color("paper"),
    surface: color("surface"),
    sunken: color("sunken"),
    line: color("line"),
    ink: color("ink"),
    muted: color("muted"),
    accent: color("accent"),
    tones: TONES.map(color),
  };
}

export function useColors(): Colors {
  const [colors, setColors] = useState(readColors);
  useEffect(() => {
    const observer = new MutationObserver(() => setColors(readColors()));
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => observer.disconnect();
  }, []);
  return colors;
}
