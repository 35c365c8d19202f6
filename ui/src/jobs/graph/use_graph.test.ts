import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { definition } from "../model/graph.fixture";
import { useGraph } from "./use_graph";

function Probe() {
  const graph = useGraph(definition({ one: [], two: ["one"] }));
  return createElement("p", null, graph === null ? "loading" : "loaded");
}

test("useGraph does not build the graph in the first render", () => {
  expect(renderToStaticMarkup(createElement(Probe))).toBe("<p>loading</p>");
});
