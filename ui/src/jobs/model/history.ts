// The events of a job in order, and its state after any of them.

import type { Event, Job } from "../../api/types";
import { fold } from "./fold";
import type { Graph } from "./graph";
import { copyState, initialState, type JobState, type LoopCounts, setLoopCounts } from "./state";

const CHECKPOINT_EVENTS = 500;

export class History {
  readonly graph: Graph;
  readonly events: Event[] = [];
  /** The state after all events so far. */
  readonly latest: JobState;
  private readonly initial: JobState;
  private readonly checkpoints: { count: number; state: JobState }[] = [];
  // A checkpoint has an entry per node, so the interval grows with the number of nodes.
  private readonly interval: number;
  private lastRequested: JobState | null = null;

  constructor(graph: Graph, job?: Pick<Job, "created_at">) {
    this.graph = graph;
    this.initial = initialState(graph, job);
    this.latest = copyState(this.initial);
    this.interval = Math.max(CHECKPOINT_EVENTS, graph.nodes.length);
  }

  get length(): number {
    return this.events.length;
  }

  /** Append events, skip duplicates, and return the number of new ones. */
  append(events: readonly Event[]): number {
    const before = this.events.length;
    for (const event of events) {
      if (event.seq <= this.latest.seq) {
        continue;
      }
      this.events.push(event);
      fold(this.latest, event);
      if (this.events.length % this.interval === 0) {
        this.checkpoints.push({ count: this.events.length, state: copyState(this.latest) });
      }
    }
    return this.events.length - before;
  }

  /** Set the counts of a loop in the latest state. */
  setLoopCounts(number: number, loop: LoopCounts): void {
    setLoopCounts(this.latest, number, loop);
  }

  /** Return the state after all events up to `seq`. Valid until the next call. */
  stateAt(seq: number): JobState {
    if (seq >= this.latest.seq) {
      return this.latest;
    }
    const count = this.countUpTo(seq);
    const reached = this.events[count - 1]?.seq ?? 0;
    if (this.lastRequested?.seq === reached) {
      return this.lastRequested;
    }
    const state = copyState(this.closest(count, reached));
    for (let at = this.countUpTo(state.seq); at < count; at++) {
      fold(state, this.events[at] as Event);
    }
    this.lastRequested = state;
    return state;
  }

  /** The last event up to `seq`; null before the first. */
  eventAt(seq: number): Event | null {
    return this.events[this.countUpTo(seq) - 1] ?? null;
  }

  /** The number of events up to `seq`. */
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

  /** The closest earlier state: a checkpoint, or the last one requested. */
  private closest(count: number, reached: number): JobState {
    const checkpointCount = Math.floor(count / this.interval);
    const checkpoint = this.checkpoints[checkpointCount - 1]?.state ?? this.initial;
    const recent = this.lastRequested;
    return recent !== null && recent.seq <= reached && recent.seq > checkpoint.seq ? recent : checkpoint;
  }
}
