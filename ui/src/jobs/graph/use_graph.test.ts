import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { definition } from "../model/graph.fixture";
import { useGraph } from "./use_graph";

function Probe() {
  const graph = useGraph(definition({ one: [], two: ["one"] }));
  return createElement("p", null, graph === null ? "to come" : "there");
}

test("a graph is not worked out in the rendering that first hears of its definition", () => {
  expect(renderToStaticMarkup(createElement(Probe))).toBe("<p>to come</p>");
});
