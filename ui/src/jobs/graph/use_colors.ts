// The colours of the page for what is drawn on a canvas, renewed when the theme changes.

import { useEffect, useState } from "react";
import { TONES } from "./tones";

export interface Colours {
  paper: string;
  surface: string;
  sunken: string;
  line: string;
  ink: string;
  muted: string;
  accent: string;
  /** By the number of the tone. */
  tones: string[];
}

function read(): Colours {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string) => style.getPropertyValue(`--${name}`).trim() || "#888888";
  return {
    paper: of("paper"),
    surface: of("surface"),
    sunken: of("sunken"),
    line: of("line"),
    ink: of("ink"),
    muted: of("muted"),
    accent: of("accent"),
    tones: TONES.map(of),
  };
}

export function useColours(): Colours {
  const [colours, setColours] = useState(read);
  useEffect(() => {
    const observer = new MutationObserver(() => setColours(read()));
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => observer.disconnect();
  }, []);
  return colours;
}
