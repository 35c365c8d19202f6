// Follows a job: loads its stored events, then streams new ones, and polls the counts of its loops.

import { ApiError, apiPath, get } from "../../api/client";
import { type ConnectionState, followStream } from "../../api/event_stream";
import type { Event, Job, Node, Page } from "../../api/types";
import { formatCount } from "../../lib/format";
import { isFinal } from "../job_status";
import type { Graph } from "../model/graph";
import { History } from "../model/history";
import { FrameNotifier } from "./frame_notifier";
import { loopsToPoll } from "./loop_polling";

// Larger pages would block the browser.
const PAGE_EVENTS = 2_500;
/** Iteration events are kept in memory, so their number is limited. */
export const ITERATION_EVENTS_MAX = 200_000;
const LOADING_NOTIFY_MS = 600;
const LOOP_POLL_MS = 1_000;
// A retry may take a moment until its first event is stored.
const RESUME_TRIES = 10;
const RESUME_RETRY_MS = 700;

export class LiveJob {
  readonly jobId: string;
  readonly graph: Graph;
  readonly notifier = new FrameNotifier();
  history: History;
  connection: ConnectionState = "connecting";
  isConnectionLost = false;
  /** Whether the stored events have been loaded. */
  isLoaded = false;
  /** Whether the history includes the events of iterations. */
  hasIterationEvents = false;
  /** The number of events loaded so far, while iteration events are loaded. */
  iterationEventsRead: number | null = null;
  error: unknown = null;
  private readonly job: Pick<Job, "created_at">;
  private running: AbortSignal | null = null;
  // By node: the version of each loop when its counts were polled.
  private readonly polledLoops = new Map<number, string>();

  constructor(job: Pick<Job, "job_id" | "created_at">, graph: Graph) {
    this.jobId = job.job_id;
    this.job = job;
    this.graph = graph;
    this.history = new History(graph, job);
  }

  get isFinal(): boolean {
    return isFinal(this.history.latest.status);
  }

  /** Whether events have been read; before, the state of the job is unknown. */
  get hasState(): boolean {
    return this.isLoaded || this.history.length > 0;
  }

  /** Load and stream events until the job ends or the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.running && !this.running.aborted) {
      return;
    }
    this.running = signal;
    const loopTimer = setInterval(() => void this.pollLoops(signal), LOOP_POLL_MS);
    try {
      await this.loadStored(signal);
      await this.stream(signal);
      await this.pollLoops(signal);
    } catch (error) {
      if (!signal.aborted) {
        this.error = error;
      }
    } finally {
      clearInterval(loopTimer);
      if (this.running === signal) {
        this.running = null;
      }
      this.notifier.notify();
    }
  }

  /** Stream again after a retry of the job. */
  async resume(signal: AbortSignal): Promise<void> {
    const before = this.history.length;
    for (let tries = 0; tries < RESUME_TRIES && !signal.aborted; tries++) {
      await this.run(signal);
      if (this.history.length > before) {
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, RESUME_RETRY_MS));
    }
  }

  /** Reload the history of a finished job with the events of iterations. */
  async readIterationEvents(): Promise<void> {
    const history = new History(this.graph, this.job);
    this.iterationEventsRead = 0;
    try {
      for await (const events of this.pages(0, true)) {
        history.append(events);
        this.iterationEventsRead = history.length;
        this.notifier.notify();
        if (history.length > ITERATION_EVENTS_MAX) {
          throw new Error(`The job has more than ${formatCount(ITERATION_EVENTS_MAX)} events.`);
        }
      }
      this.history = history;
      this.hasIterationEvents = true;
      this.polledLoops.clear();
    } finally {
      this.iterationEventsRead = null;
      this.notifier.notify();
    }
  }

  private async loadStored(signal: AbortSignal): Promise<void> {
    try {
      let notifiedAt = 0;
      for await (const events of this.pages(this.history.latest.seq, this.hasIterationEvents, signal)) {
        this.history.append(events);
        // Rendering after every page of a long history would take longer than loading it.
        if (performance.now() - notifiedAt > LOADING_NOTIFY_MS) {
          notifiedAt = performance.now();
          this.notifier.notify();
        }
      }
    } catch (error) {
      // If the server is unreachable, the stream reconnects and delivers the rest.
      if (signal.aborted || (error instanceof ApiError && error.status >= 400 && error.status < 500)) {
        throw error;
      }
    }
    this.isLoaded = true;
    this.notifier.notify();
  }

  private async *pages(after: number, withIterations: boolean, signal?: AbortSignal): AsyncGenerator<Event[]> {
    const path = apiPath("jobs", this.jobId, "events");
    let next: string | null = String(after);
    while (next !== null) {
      const query = { after: next, limit: PAGE_EVENTS, context: false, iterations: withIterations };
      const page: Page<Event> = await get<Page<Event>>(path, query, signal);
      yield page.items;
      next = page.next_cursor;
    }
  }

  private async stream(signal: AbortSignal): Promise<void> {
    await followStream<Event>(apiPath("jobs", this.jobId, "events", "stream"), {
      after: this.history.latest.seq,
      query: { context: false, iterations: this.hasIterationEvents },
      signal,
      onMessages: (events) => this.append(events),
      onConnection: (connection) => {
        this.connection = connection;
        // A reconnecting stream is still lost.
        this.isConnectionLost = connection === "lost" || (this.isConnectionLost && connection === "connecting");
        this.notifier.notify();
      },
    });
  }

  private append(events: Event[]): void {
    this.history.append(events);
    this.notifier.notify();
  }

  /** Get the counts of a few loops, since the events of iterations are not streamed. */
  private async pollLoops(signal: AbortSignal): Promise<void> {
    if (this.hasIterationEvents || document.hidden) {
      return;
    }
    const { latest } = this.history;
    for (const { number, version } of loopsToPoll(latest, this.polledLoops)) {
      const id = this.graph.nodes[number]?.id ?? "";
      this.polledLoops.set(number, version);
      try {
        const node = await get<Node>(apiPath("jobs", this.jobId, "nodes", id), {}, signal);
        if (node.loop && !this.hasIterationEvents) {
          this.history.setLoopCounts(number, node.loop);
          this.notifier.notify();
        }
      } catch {
        // Retried with the next poll.
        this.polledLoops.delete(number);
        return;
      }
    }
  }
}
