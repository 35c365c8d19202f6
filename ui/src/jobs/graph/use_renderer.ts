// A stage for as long as its place is on the page, as large as that place.

import { type RefObject, useEffect, useRef, useState } from "react";
import type { InSight } from "./card_layer";
import { gestures } from "./gestures";
import { Stage } from "./graph_renderer";
import type { Size } from "./viewport";

const NOTHING: InSight = { cards: [], isFar: false };

export function useStage(place: RefObject<HTMLDivElement | null>, isStill: boolean) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const layer = useRef<HTMLDivElement>(null);
  const [stage, setStage] = useState<Stage | null>(null);
  const [screen, setScreen] = useState<Size>({ width: 0, height: 0 });
  const [sight, setSight] = useState(NOTHING);
  useEffect(() => {
    const box = place.current;
    if (!box || !canvas.current || !layer.current) {
      return;
    }
    const made = new Stage(canvas.current, layer.current);
    made.onInSight = setSight;
    const observer = new ResizeObserver(([entry]) => {
      if (entry) {
        const { width, height } = entry.contentRect;
        made.resize({ width, height });
        setScreen({ width, height });
      }
    });
    observer.observe(box);
    const stopGestures = isStill ? undefined : gestures(box, made);
    setStage(made);
    return () => {
      observer.disconnect();
      stopGestures?.();
      made.stop();
      setStage(null);
      setSight(NOTHING);
    };
  }, [place, isStill]);
  return { stage, screen, sight, canvas, layer };
}
