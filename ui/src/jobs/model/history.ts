// The events of a job in order, and its state after any of them.

import type { Event, Job } from "../../api/types";
import { fold } from "./fold";
import type { Graph } from "./graph";
import { copied, fresh, type JobState, type LoopCounts, tellLoop } from "./state";

const CHECKPOINT_EVENTS = 500;

export class History {
  readonly graph: Graph;
  readonly events: Event[] = [];
  /** After all events; folded on as more of them come. */
  readonly latest: JobState;
  private readonly first: JobState;
  private readonly checkpoints: { count: number; state: JobState }[] = [];
  // A checkpoint holds a place for each node: as many events lie between two of them as there are nodes.
  private readonly interval: number;
  private asked: JobState | null = null;

  constructor(graph: Graph, job?: Pick<Job, "created_at">) {
    this.graph = graph;
    this.first = fresh(graph, job);
    this.latest = copied(this.first);
    this.interval = Math.max(CHECKPOINT_EVENTS, graph.nodes.length);
  }

  get length(): number {
    return this.events.length;
  }

  /** Adds events that follow; those that are there already are left out. How many were new. */
  append(events: readonly Event[]): number {
    const before = this.events.length;
    for (const event of events) {
      if (event.seq <= this.latest.seq) {
        continue;
      }
      this.events.push(event);
      fold(this.latest, event);
      if (this.events.length % this.interval === 0) {
        this.checkpoints.push({ count: this.events.length, state: copied(this.latest) });
      }
    }
    return this.events.length - before;
  }

  /** Counts of a loop whose iterations' events are not read; only of the present. */
  tellLoop(number: number, loop: LoopCounts): void {
    tellLoop(this.latest, number, loop);
  }

  /** After all events up to this number. It stays valid until another state of the past is asked for. */
  stateAt(seq: number): JobState {
    if (seq >= this.latest.seq) {
      return this.latest;
    }
    const count = this.countUpTo(seq);
    const reached = this.events[count - 1]?.seq ?? 0;
    if (this.asked?.seq === reached) {
      return this.asked;
    }
    const state = copied(this.nearest(count, reached));
    for (let at = this.countUpTo(state.seq); at < count; at++) {
      fold(state, this.events[at] as Event);
    }
    this.asked = state;
    return state;
  }

  /** The event after which a state stands; null before the first. */
  eventAt(seq: number): Event | null {
    return this.events[this.countUpTo(seq) - 1] ?? null;
  }

  /** How many events have a number up to this one. */
  countUpTo(seq: number): number {
    let low = 0;
    let high = this.events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.events[middle] as Event).seq <= seq) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /** The state that is known and the least before: a checkpoint, or the one asked for last. */
  private nearest(count: number, reached: number): JobState {
    const passed = Math.floor(count / this.interval);
    const checkpoint = this.checkpoints[passed - 1]?.state ?? this.first;
    const asked = this.asked;
    return asked !== null && asked.seq <= reached && asked.seq > checkpoint.seq ? asked : checkpoint;
  }
}
