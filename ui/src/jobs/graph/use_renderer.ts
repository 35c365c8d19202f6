// A renderer for an element of the page, resized with the element.

import { type RefObject, useEffect, useRef, useState } from "react";
import { NO_CARDS } from "./card_layer";
import { attachGestures } from "./gestures";
import { GraphRenderer } from "./graph_renderer";
import type { Size } from "./viewport";

export function useRenderer(container: RefObject<HTMLDivElement | null>, isStatic: boolean) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const cardElement = useRef<HTMLDivElement>(null);
  const [renderer, setRenderer] = useState<GraphRenderer | null>(null);
  const [screen, setScreen] = useState<Size>({ width: 0, height: 0 });
  const [cards, setCards] = useState(NO_CARDS);
  useEffect(() => {
    const element = container.current;
    if (!element || !canvas.current || !cardElement.current) {
      return;
    }
    const created = new GraphRenderer(canvas.current, cardElement.current);
    created.cardLayer.onChange = setCards;
    const observer = new ResizeObserver(([entry]) => {
      if (entry) {
        const { width, height } = entry.contentRect;
        created.resize({ width, height });
        setScreen({ width, height });
      }
    });
    observer.observe(element);
    const detachGestures = isStatic ? undefined : attachGestures(element, created.camera);
    setRenderer(created);
    return () => {
      observer.disconnect();
      detachGestures?.();
      created.stop();
      setRenderer(null);
      setCards(NO_CARDS);
    };
  }, [container, isStatic]);
  return { renderer, screen, cards, canvas, cardElement };
}
