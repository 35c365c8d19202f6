import { beforeEach, expect, test, vi } from "vitest";
import type { Event } from "../../api/shapes";
import { graphOf } from "../model/graph";
import { LiveJob } from "./live_job";

const TYPES = ["job_created", "node_ready", "node_dispatched", "job_started", "node_started", "node_completed"];
const graph = graphOf({ workflow_id: "w", nodes: [{ id: "only", handler: "echo" }] });

function event(seq: number): Event {
  const event_type = TYPES[seq - 1] ?? "job_completed";
  const node_id = event_type.startsWith("node") ? "only" : null;
  const rest = { index: null, data: {}, meta: null, context: null, parent_event_id: null };
  return { event_id: `j:${seq}`, seq, event_type, job_id: "j", node_id, timestamp: "2026-01-01T00:00:00Z", ...rest };
}

const page = (seqs: number[], next: string | null) => Response.json({ items: seqs.map(event), next_cursor: next });
const stream = (seqs: number[]) =>
  new Response(seqs.map((seq) => `id: ${seq}\nevent: e\ndata: ${JSON.stringify(event(seq))}\n\n`).join(""));
const gone = () => new Response("{}", { status: 503 });
const told = () => new Response(null, { status: 204 });

/** A server that gives these answers one after another; what it was asked for. */
function serving(...answers: Response[]): string[] {
  const asked: string[] = [];
  vi.stubGlobal("fetch", async (url: string) => {
    asked.push(url);
    return answers.shift() ?? told();
  });
  return asked;
}

const job = () => new LiveJob({ job_id: "j", created_at: "2026-01-01T00:00:00Z" }, graph);

beforeEach(() => {
  vi.stubGlobal("requestAnimationFrame", (draw: () => void) => setTimeout(draw, 0));
  vi.stubGlobal("document", { hidden: false });
});

test("stored events are read page by page, and the stream goes on after them", async () => {
  const asked = serving(page([1, 2], "2"), page([3], null), stream([4, 5, 6, 7]), told());
  const live = job();
  await live.run(new AbortController().signal);
  expect(live.history.events.map((one) => one.seq)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  expect(live.hasEnded).toBe(true);
  expect(live.connection).toBe("ended");
  expect(asked[1]).toContain("after=2");
  expect(asked[0]).toContain("limit=2500");
  expect(asked[2]).toContain("/events/stream?context=false&iterations=false&after=3");
});

test("a server that is away for a moment is waited for, and nothing is lost or told twice", async () => {
  serving(page([1, 2, 3], null), stream([4]), gone(), stream([5, 6, 7]), told());
  const live = job();
  const lost: boolean[] = [];
  live.batched.subscribe(() => lost.push(live.isLost));
  await live.run(new AbortController().signal);
  expect(live.history.events.map((one) => one.seq)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  expect(lost).toContain(true);
  expect(live.isLost).toBe(false);
});

test("what the server refuses for good is told and not asked again", async () => {
  const asked = serving(Response.json({ detail: "there is no such job" }, { status: 404 }));
  const live = job();
  await live.run(new AbortController().signal);
  expect(live.problem).toMatchObject({ message: "there is no such job" });
  expect(asked).toHaveLength(1);
});

test("a second run does not follow twice", async () => {
  const asked = serving(page([1, 2, 3, 4, 5, 6, 7], null), told());
  const live = job();
  const { signal } = new AbortController();
  await Promise.all([live.run(signal), live.run(signal)]);
  expect(asked).toHaveLength(2);
});

test("the events of items take the place of the history once all of them are read", async () => {
  const live = job();
  serving(page([1, 7], null), told());
  await live.run(new AbortController().signal);
  const asked = serving(page([1, 2, 3], "3"), page([4, 5, 6, 7], null));
  await live.readItems();
  expect(asked[0]).toContain("iterations=true");
  expect(live.hasItems).toBe(true);
  expect(live.history.length).toBe(7);
});
