// Web worker that computes layouts, so that the page stays responsive.

import { computeLayout } from "./layout";
import type { Layout, LayoutRequest } from "./layout_types";

export interface LayoutJob {
  key: string;
  request: LayoutRequest;
}

export interface LayoutResult {
  key: string;
  layout: Layout;
}

addEventListener("message", ({ data }: MessageEvent<LayoutJob>) => {
  const result: LayoutResult = { key: data.key, layout: computeLayout(data.request) };
  postMessage(result);
});
