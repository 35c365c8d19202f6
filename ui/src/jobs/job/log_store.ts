// The lines that a job's attempts write, as they come.

import { at } from "../../api/client";
import { follow } from "../../api/event_stream";
import type { Log } from "../../api/types";
import { Batched } from "./frame_notifier";

/** More lines than this are not held; the first ones are given up. */
export const LINES_MAX = 50_000;

export class LogStore {
  readonly batched = new Batched();
  /** Another list when the first lines were given up. */
  lines: Log[] = [];
  /** How many lines at the beginning were given up. */
  dropped = 0;
  hasEnded = false;
  problem: unknown = null;
  private readonly jobId: string;
  private readonly node: string | undefined;

  constructor(jobId: string, node: string | undefined) {
    this.jobId = jobId;
    this.node = node;
  }

  async run(signal: AbortSignal): Promise<void> {
    try {
      await follow<Log>(at("jobs", this.jobId, "logs", "stream"), {
        after: this.lines.at(-1)?.log_id ?? 0,
        query: { node: this.node },
        signal,
        onMessages: (lines) => this.take(lines),
      });
      this.hasEnded = !signal.aborted;
    } catch (error) {
      this.problem = error;
    }
    this.batched.changed();
  }

  take(lines: readonly Log[]): void {
    for (const line of lines) {
      this.lines.push(line);
    }
    // A part at a time: moving the rest costs as much as it is long.
    if (this.lines.length > LINES_MAX) {
      const spare = this.lines.length - LINES_MAX + LINES_MAX / 10;
      this.lines = this.lines.slice(spare);
      this.dropped += spare;
    }
    this.batched.changed();
  }
}
