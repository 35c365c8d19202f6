// One job as it goes on: its stored events, then those that come, and the counts of its loops.

import { at, get, Problem } from "../../api/client";
import { type Connection, follow } from "../../api/follow";
import type { Event, Job, Node, Page } from "../../api/shapes";
import { count } from "../../parts/format";
import { hasEnded } from "../job_states";
import type { Graph } from "../model/graph";
import { History } from "../model/history";
import { Batched } from "./batched";
import { dueLoops } from "./loop_counts";

// Reading more of them at once would hold the page up.
const PAGE_EVENTS = 2_500;
/** Item events are held in memory; a loop with more of them is shown without. */
export const ITEM_EVENTS_MAX = 200_000;
const READING_TOLD_EVERY_MS = 600;
const LOOPS_EVERY_MS = 1_000;
// An order of the operator may take a moment until its first event is there.
const WAKE_TRIES = 10;
const WAKE_EVERY_MS = 700;

export class LiveJob {
  readonly jobId: string;
  readonly graph: Graph;
  readonly batched = new Batched();
  history: History;
  connection: Connection = "connecting";
  isLost = false;
  /** Whether everything stored has been read once. */
  isLoaded = false;
  /** Whether the events of single iterations are part of the history. */
  hasItems = false;
  /** How many item events are read so far, while they are. */
  itemsRead: number | null = null;
  problem: unknown = null;
  private readonly created: Pick<Job, "created_at">;
  private running: AbortSignal | null = null;
  // By node: what was known of a loop when its counts were asked for last.
  private readonly counted = new Map<number, string>();

  constructor(job: Pick<Job, "job_id" | "created_at">, graph: Graph) {
    this.jobId = job.job_id;
    this.created = job;
    this.graph = graph;
    this.history = new History(graph, job);
  }

  get hasEnded(): boolean {
    return hasEnded(this.history.latest.status);
  }

  /** Reads and follows until the job has ended or the signal comes. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.running && !this.running.aborted) {
      return;
    }
    this.running = signal;
    const loops = setInterval(() => void this.countLoops(signal), LOOPS_EVERY_MS);
    try {
      await this.readStored(signal);
      await this.follow(signal);
      await this.countLoops(signal);
    } catch (error) {
      if (!signal.aborted) {
        this.problem = error;
      }
    } finally {
      clearInterval(loops);
      if (this.running === signal) {
        this.running = null;
      }
      this.batched.changed();
    }
  }

  /** Follows again after an order that lets the job go on. */
  async wake(signal: AbortSignal): Promise<void> {
    const before = this.history.length;
    for (let tries = 0; tries < WAKE_TRIES && !signal.aborted; tries++) {
      await this.run(signal);
      if (this.history.length > before) {
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, WAKE_EVERY_MS));
    }
  }

  /** Reads the history of a job that has ended anew, with the events of iterations. */
  async readItems(): Promise<void> {
    const whole = new History(this.graph, this.created);
    this.itemsRead = 0;
    try {
      for await (const events of this.pages(0, true)) {
        whole.append(events);
        this.itemsRead = whole.length;
        this.batched.changed();
        if (whole.length > ITEM_EVENTS_MAX) {
          throw new Error(`This job has more than ${count(ITEM_EVENTS_MAX)} events.`);
        }
      }
      this.history = whole;
      this.hasItems = true;
      this.counted.clear();
    } finally {
      this.itemsRead = null;
      this.batched.changed();
    }
  }

  private async readStored(signal: AbortSignal): Promise<void> {
    try {
      let told = 0;
      for await (const events of this.pages(this.history.latest.seq, this.hasItems, signal)) {
        this.history.append(events);
        // Drawing every page of a long history would take longer than reading it.
        if (performance.now() - told > READING_TOLD_EVERY_MS) {
          told = performance.now();
          this.batched.changed();
        }
      }
    } catch (error) {
      // A server that is away for a moment: the stream waits for it and tells the rest.
      if (signal.aborted || (error instanceof Problem && error.status >= 400 && error.status < 500)) {
        throw error;
      }
    }
    this.isLoaded = true;
    this.batched.changed();
  }

  private async *pages(after: number, iterations: boolean, signal?: AbortSignal): AsyncGenerator<Event[]> {
    const path = at("jobs", this.jobId, "events");
    let next: string | null = String(after);
    while (next !== null) {
      const query = { after: next, limit: PAGE_EVENTS, context: false, iterations };
      const page: Page<Event> = await get<Page<Event>>(path, query, signal);
      yield page.items;
      next = page.next_cursor;
    }
  }

  private async follow(signal: AbortSignal): Promise<void> {
    await follow<Event>(at("jobs", this.jobId, "events", "stream"), {
      after: this.history.latest.seq,
      query: { context: false, iterations: this.hasItems },
      signal,
      onMessages: (events) => this.take(events),
      onConnection: (connection) => {
        this.connection = connection;
        // While it is tried again it is still lost.
        this.isLost = connection === "lost" || (this.isLost && connection === "connecting");
        this.batched.changed();
      },
    });
  }

  private take(events: Event[]): void {
    this.history.append(events);
    this.batched.changed();
  }

  /** Asks for the counts of a few loops whose iterations are not followed. */
  private async countLoops(signal: AbortSignal): Promise<void> {
    if (this.hasItems || document.hidden) {
      return;
    }
    const { latest } = this.history;
    for (const { number, known } of dueLoops(latest, this.counted)) {
      const id = this.graph.nodes[number]?.id ?? "";
      this.counted.set(number, known);
      try {
        const node = await get<Node>(at("jobs", this.jobId, "nodes", id), {}, signal);
        if (node.loop && !this.hasItems) {
          this.history.tellLoop(number, node.loop);
          this.batched.changed();
        }
      } catch {
        // Asked again with the next turn.
        this.counted.delete(number);
        return;
      }
    }
  }
}
