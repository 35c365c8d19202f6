// Lays graphs out beside the page, which stays free meanwhile.

import { layoutOf } from "./layout";
import type { Layout, LayoutRequest } from "./layout_types";

export interface Asked {
  key: string;
  request: LayoutRequest;
}

export interface Answered {
  key: string;
  layout: Layout;
}

addEventListener("message", ({ data }: MessageEvent<Asked>) => {
  const answer: Answered = { key: data.key, layout: layoutOf(data.request) };
  postMessage(answer);
});
