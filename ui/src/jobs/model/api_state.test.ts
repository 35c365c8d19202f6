import { expect, it } from "vitest";
import type { Definition, Event, Job } from "../../api/types";
import { stateFromApi } from "./api_state";
import { buildGraph } from "./graph";
import { History } from "./history";

interface Recording {
  definition: Definition;
  job: Job;
  events: Event[];
}

const recordings = import.meta.glob<Recording>("./fixtures/*.json", { eager: true, import: "default" });

it.each(Object.keys(recordings))("stateFromApi agrees with the events of the job: %s", (path) => {
  const { definition, job, events } = recordings[path] as Recording;
  const graph = buildGraph(definition);
  const history = new History(graph, job);
  history.append(events);
  const state = stateFromApi(graph, job, job.nodes ?? []);

  expect([state.status, state.startedAt, state.endedAt]).toEqual([
    history.latest.status,
    history.latest.startedAt,
    history.latest.endedAt,
  ]);
  expect(state.nodes.map(({ status, attempt, loop }) => ({ status, attempt, loop }))).toEqual(
    history.latest.nodes.map(({ status, attempt, loop }) => ({ status, attempt, loop })),
  );
});
