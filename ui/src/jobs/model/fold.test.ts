import { describe, expect, it } from "vitest";
import type { EventType } from "../../api/event_types";
import type { Definition, Event, Job } from "../../api/types";
import { fold } from "./fold";
import { buildGraph } from "./graph";
import { fastestMs } from "./graph.fixture";
import { History } from "./history";
import { initialState, type JobState, type NodeState } from "./state";

interface Recorded {
  definition: Definition;
  job: Job;
  events: Event[];
}

const recorded = import.meta.glob<Recorded>("./fixtures/*.json", { eager: true, import: "default" });

function recording(name: string): Recorded {
  return recorded[`./fixtures/${name}.json`] as Recorded;
}

function folded({ definition, job, events }: Recorded, until = Number.POSITIVE_INFINITY): JobState {
  const state = initialState(buildGraph(definition), job);
  for (const event of events) {
    if (event.seq <= until) {
      fold(state, event);
    }
  }
  return state;
}

function nodeOf(state: JobState, id: string): NodeState {
  return state.nodes[state.graph.index.get(id) ?? -1] as NodeState;
}

/** The fields of a node that the API returns too. */
function comparable(node: NodeState | undefined): object {
  const { status, attempt, error, loop, startedAt, endedAt } = node as NodeState;
  return { status, attempt, message: error?.message, loop, startedAt, endedAt };
}

const NO_LOOP = { begun: 0, completed: 0, failed: 0, skipped: 0, running: 0, waiting: 0, cancelled: 0 };

describe("fold", () => {
  it.each(Object.keys(recorded))("agrees with the final state of the API: %s", (path) => {
    const { job } = recorded[path] as Recorded;
    const state = folded(recorded[path] as Recorded);

    expect(state.status).toBe(job.status);
    expect(state.error?.message).toBe(job.error?.message);
    expect([state.startedAt, state.endedAt]).toEqual([job.started_at, job.completed_at]);
    expect(job.nodes?.length).toBe(state.nodes.length);
    for (const node of job.nodes ?? []) {
      const { status, attempt, error, loop, started_at: startedAt, completed_at: endedAt } = node;
      const expected = { status, attempt, message: error?.message, loop, startedAt, endedAt };
      expect({ [node.node_id]: comparable(nodeOf(state, node.node_id)) }).toEqual({ [node.node_id]: expected });
    }
  });

  it("ignores events already applied and unknown types", () => {
    const diamond = recording("diamond");
    const state = folded(diamond);
    const before = structuredClone(state.nodes);
    const last = diamond.events.at(-1) as Event;

    for (const event of diamond.events) {
      fold(state, event);
    }
    fold(state, { ...last, seq: last.seq + 1, event_type: "node_painted" as EventType, node_id: "left" });

    expect(state.nodes).toEqual(before);
    expect(state.seq).toBe(last.seq + 1);
  });

  it("sets when the next attempt is due while a node waits", () => {
    const flaky = recording("flaky");
    const retrying = flaky.events.find((event) => event.event_type === "node_retrying") as Event;
    const waiting = nodeOf(folded(flaky, retrying.seq), "call");
    const again = nodeOf(folded(flaky, retrying.seq + 1), "call");

    const seconds = (Date.parse(waiting.waitUntil ?? "") - Date.parse(retrying.timestamp)) / 1000;
    expect(waiting.status).toBe("waiting");
    expect(seconds).toBeCloseTo(retrying.data.delay_seconds ?? 0, 2);
    expect(again.waitUntil).toBeNull();
  });

  it("keeps every attempt with its worker and outcome", () => {
    const call = nodeOf(folded(recording("flaky")), "call");

    expect(call.attempts.map(({ number, outcome, worker }) => [number, outcome, worker])).toEqual([
      [1, "retrying", "worker-1"],
      [2, "retrying", "worker-1"],
      [3, "completed", "worker-1"],
    ]);
    expect(call.attempts[0]?.error?.message).toBe("the server is busy");
  });

  it("marks the attempt of a lost worker as retrying", () => {
    const fragile = nodeOf(folded(recording("crashed")), "fragile");

    expect(fragile.attempts.map((attempt) => attempt.outcome)).toEqual(["retrying", "completed"]);
  });

  it("returns an attempt to the queue when its worker is lost", () => {
    const flaky = recording("flaky");
    const started = flaky.events.find((event) => event.event_type === "node_started") as Event;
    const state = folded(flaky, started.seq);

    fold(state, { ...started, seq: started.seq + 1, event_type: "worker_lost" });
    const lost = nodeOf(state, "call");
    fold(state, { ...started, seq: started.seq + 2, data: { attempt_number: 1, worker_id: "worker-2" } });
    const again = nodeOf(state, "call");

    expect([lost.status, lost.startedAt, lost.attempts[0]?.worker]).toEqual(["dispatched", started.timestamp, null]);
    expect([again.status, again.attempts.map(({ worker }) => worker)]).toEqual(["running", ["worker-2"]]);
  });

  it("counts the failures of a completed job until it is retried", () => {
    const tolerant = recording("tolerant");
    const state = folded(tolerant);
    const last = tolerant.events.at(-1) as Event;
    fold(state, { ...last, seq: last.seq + 1, event_type: "job_completed", node_id: null, data: { failures: 2 } });
    expect(state.failures).toBe(2);

    const nodes = state.graph.nodes.map(({ id }) => id);
    fold(state, { ...last, seq: last.seq + 2, event_type: "job_retried", node_id: null, data: { nodes } });

    expect(state.failures).toBe(0);
  });

  it("marks attempts that brought a page as successful", () => {
    const series = recording("series");
    const retrying = series.events.find((event) => event.event_type === "node_retrying") as Event;
    const called = nodeOf(folded(series, retrying.seq), retrying.node_id as string);

    expect(called.attempts.map((attempt) => attempt.outcome)).toEqual(["called"]);
  });

  it("counts the iterations with pages left until the loop is retried", () => {
    const tolerant = recording("tolerant");
    const state = folded(tolerant);
    const ended = tolerant.events.find((event) => event.event_type === "iterator_completed") as Event;
    const seq = state.seq;
    fold(state, { ...ended, seq: seq + 1, data: { ...ended.data, exhausted: 2 } });
    const loop = () => nodeOf(state, ended.node_id as string);
    expect(loop().exhaustedIterations).toBe(2);

    const data = { nodes: [ended.node_id as string] };
    fold(state, { ...ended, seq: seq + 2, event_type: "job_retried", node_id: null, data });

    expect(loop().exhaustedIterations).toBe(0);
  });

  it("completes START with the first step and END when it is ready", () => {
    const diamond = recording("diamond");
    const ready = diamond.events.find((event) => event.node_id === "end") as Event;

    expect(nodeOf(folded(diamond, 1), "start").status).toBe("pending");
    expect(nodeOf(folded(diamond, 2), "start").status).toBe("completed");
    expect(nodeOf(folded(diamond, ready.seq - 1), "end").status).toBe("pending");
    expect(nodeOf(folded(diamond, ready.seq), "end").status).toBe("completed");
  });

  it("resets a retried node and keeps its attempts", () => {
    const retried = recording("retried");
    const event = retried.events.find(({ event_type }) => event_type === "job_retried") as Event;
    const state = folded(retried, event.seq);
    const charge = nodeOf(state, "charge");

    expect(state.status).toBe("running");
    expect([charge.status, charge.error, charge.attempt]).toEqual(["pending", null, 1]);
    expect(charge.attempts.length).toBe(1);
    expect(nodeOf(state, "order").status).toBe("completed");
  });

  it("keeps the counts of a loop when only failed iterations are retried, and resets them when the loop restarts", () => {
    const partial = recording("loop_retried");
    const restarted = recording("from_node");
    const at = ({ events }: Recorded) => (events.find((event) => event.event_type === "job_retried") as Event).seq;
    const kept = nodeOf(folded(partial, at(partial)), "each").loop;

    expect(kept).toMatchObject({ total: 8, failed: 0, cancelled: 0, running: 0, skipped: 1 });
    expect(kept?.completed).toBeGreaterThan(0);
    expect(nodeOf(folded(restarted, at(restarted)), "each").loop).toBeNull();
  });

  it.each(Object.keys(recorded))("never counts more iterations than began: %s", (path) => {
    const { definition, job, events } = recorded[path] as Recorded;
    const state = initialState(buildGraph(definition), job);
    for (const event of events) {
      fold(state, event);
      for (const { loop } of state.nodes) {
        const { begun, completed, failed, skipped, running, waiting, cancelled } = loop ?? NO_LOOP;
        expect(Math.min(completed, failed, skipped, running, waiting, cancelled)).toBeGreaterThanOrEqual(0);
        expect(completed + failed + skipped + running + waiting + cancelled).toBeLessThanOrEqual(begun);
      }
    }
  });

  it("counts a retrying iteration as waiting", () => {
    const failed = recording("loop_failed");
    const retrying = failed.events.find((event) => event.event_type === "iteration_retrying") as Event;

    expect(nodeOf(folded(failed, retrying.seq - 1), "each").loop?.waiting).toBe(0);
    expect(nodeOf(folded(failed, retrying.seq), "each").loop?.waiting).toBe(1);
  });

  it("sets the counts of a loop without the events of its iterations", () => {
    const squares = recording("squares");
    const events = squares.events.filter((event) => event.index === null);
    const state = folded({ ...squares, events });

    expect(nodeOf(state, "square").loop).toMatchObject({ total: 12, begun: 12, completed: 12, running: 0 });
  });
});

describe("History", () => {
  function long(rounds: number): { history: History; events: Event[]; graph: ReturnType<typeof buildGraph> } {
    const { definition, job, events } = recording("retried");
    const graph = buildGraph(definition);
    const history = new History(graph, job);
    const all: Event[] = [];
    for (let round = 0; round < rounds; round++) {
      for (const event of events) {
        all.push({ ...event, seq: all.length + 1 });
      }
    }
    history.append(all);
    return { history, events: all, graph };
  }

  it("returns the same state after any event as folding from the start", () => {
    const { history, events, graph } = long(120);
    for (const seq of [0, 1, 499, 500, 501, 1700, 1699, 3000, events.length - 1, events.length]) {
      const state = initialState(graph, recording("retried").job);
      for (const event of events.slice(0, seq)) {
        fold(state, event);
      }
      const found = history.stateAt(seq);
      expect([found.seq, found.status, found.nodes]).toEqual([state.seq, state.status, state.nodes]);
    }
  });

  it("keeps past and latest states independent", () => {
    const { history, events } = long(30);
    const latest = structuredClone(history.latest.nodes);
    const past = structuredClone(history.stateAt(510).nodes);
    const last = events.at(-1) as Event;

    history.append([{ ...last, seq: last.seq + 1, event_type: "node_skipped", node_id: "order", data: {} }]);
    history.stateAt(700);

    expect(history.stateAt(510).nodes).toEqual(past);
    expect(history.latest.nodes.slice(1)).toEqual(latest.slice(1));
    expect(history.latest.nodes[0]?.status).toBe("skipped");
  });

  it("skips duplicate events and returns the number of new ones", () => {
    const { job, definition, events } = recording("diamond");
    const history = new History(buildGraph(definition), job);

    expect(history.append(events.slice(0, 5))).toBe(5);
    expect(history.append(events.slice(3))).toBe(events.length - 5);
    expect(history.length).toBe(events.length);
    expect(history.eventAt(4)?.seq).toBe(4);
    expect(history.eventAt(0)).toBeNull();
  });

  it("finds any of 50,000 states in a few milliseconds", () => {
    const { history, events } = long(1_900);
    expect(events.length).toBeGreaterThan(50_000);

    const seek = () => {
      for (let step = 0; step < 20; step++) {
        history.stateAt((step * 7919) % events.length);
      }
    };

    expect(fastestMs(seek) / 20).toBeLessThan(10);
  });
});
