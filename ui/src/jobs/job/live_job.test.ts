import { beforeEach, expect, test, vi } from "vitest";
import type { EventType } from "../../api/event_types";
import type { Event } from "../../api/types";
import { buildGraph } from "../model/graph";
import { LiveJob } from "./live_job";

const TYPES: EventType[] = [
  "job_created",
  "node_ready",
  "node_dispatched",
  "job_started",
  "node_started",
  "node_completed",
];
const graph = buildGraph({ workflow_id: "w", nodes: [{ id: "only", handler: "echo" }] });

function event(seq: number): Event {
  const event_type = TYPES[seq - 1] ?? "job_completed";
  const node_id = event_type.startsWith("node") ? "only" : null;
  const rest = { index: null, data: {}, meta: null, context: null, parent_event_id: null };
  return { event_id: `j:${seq}`, seq, event_type, job_id: "j", node_id, timestamp: "2026-01-01T00:00:00Z", ...rest };
}

const page = (seqs: number[], next: string | null) => Response.json({ items: seqs.map(event), next_cursor: next });
const stream = (seqs: number[]) =>
  new Response(seqs.map((seq) => `id: ${seq}\nevent: e\ndata: ${JSON.stringify(event(seq))}\n\n`).join(""));
const unavailable = () => new Response("{}", { status: 503 });
const complete = () => new Response(null, { status: 204 });

/** Respond with the given responses in order. Returns the requested URLs. */
function serve(...responses: Response[]): string[] {
  const requested: string[] = [];
  vi.stubGlobal("fetch", async (url: string) => {
    requested.push(url);
    return responses.shift() ?? complete();
  });
  return requested;
}

const createJob = () => new LiveJob({ job_id: "j", created_at: "2026-01-01T00:00:00Z" }, graph);

beforeEach(() => {
  vi.stubGlobal("requestAnimationFrame", (callback: () => void) => setTimeout(callback, 0));
  vi.stubGlobal("document", { hidden: false });
});

test("stored events are loaded page by page, and the stream continues after them", async () => {
  const requested = serve(page([1, 2], "2"), page([3], null), stream([4, 5, 6, 7]), complete());
  const live = createJob();
  await live.run(new AbortController().signal);
  expect(live.history.events.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  expect(live.isFinal).toBe(true);
  expect(live.connection).toBe("ended");
  expect(requested[1]).toContain("after=2");
  expect(requested[0]).toContain("limit=2500");
  expect(requested[2]).toContain("/events/stream?context=false&iterations=false&after=3");
});

test("the stream reconnects without losing or repeating events", async () => {
  serve(page([1, 2, 3], null), stream([4]), unavailable(), stream([5, 6, 7]), complete());
  const live = createJob();
  const lost: boolean[] = [];
  live.notifier.subscribe(() => lost.push(live.isConnectionLost));
  await live.run(new AbortController().signal);
  expect(live.history.events.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  expect(lost).toContain(true);
  expect(live.isConnectionLost).toBe(false);
});

test("a client error is kept and not retried", async () => {
  const requested = serve(Response.json({ detail: "job not found" }, { status: 404 }));
  const live = createJob();
  await live.run(new AbortController().signal);
  expect(live.error).toMatchObject({ message: "job not found" });
  expect(requested).toHaveLength(1);
});

test("a second run does not stream twice", async () => {
  const requested = serve(page([1, 2, 3, 4, 5, 6, 7], null), complete());
  const live = createJob();
  const { signal } = new AbortController();
  await Promise.all([live.run(signal), live.run(signal)]);
  expect(requested).toHaveLength(2);
});

test("iteration events replace the history when all are loaded", async () => {
  const live = createJob();
  serve(page([1, 7], null), complete());
  await live.run(new AbortController().signal);
  const requested = serve(page([1, 2, 3], "3"), page([4, 5, 6, 7], null));
  await live.readIterationEvents();
  expect(requested[0]).toContain("iterations=true");
  expect(live.hasIterationEvents).toBe(true);
  expect(live.history.length).toBe(7);
});
