// Log lines of a job, streamed from the server.

import { apiPath } from "../../api/client";
import { followStream } from "../../api/event_stream";
import type { Log } from "../../api/types";
import { FrameNotifier } from "./frame_notifier";

/** LoadMore lines than this are not held; the first ones are given up. */
export const LINES_MAX = 50_000;

export class LogStore {
  readonly notifier = new FrameNotifier();
  /** Replaced by a new list when lines are dropped. */
  lines: Log[] = [];
  /** The number of lines dropped at the start. */
  droppedCount = 0;
  error: unknown = null;
  private readonly jobId: string;
  private readonly node: string | undefined;

  constructor(jobId: string, node: string | undefined) {
    this.jobId = jobId;
    this.node = node;
  }

  async run(signal: AbortSignal): Promise<void> {
    try {
      await followStream<Log>(apiPath("jobs", this.jobId, "logs", "stream"), {
        after: this.lines.at(-1)?.log_id ?? 0,
        query: { node: this.node },
        signal,
        onMessages: (lines) => this.append(lines),
      });
    } catch (error) {
      this.error = error;
    }
    this.notifier.notify();
  }

  append(lines: readonly Log[]): void {
    for (const line of lines) {
      this.lines.push(line);
    }
    // Many at once, because each drop copies the remaining lines.
    if (this.lines.length > LINES_MAX) {
      const excess = this.lines.length - LINES_MAX + LINES_MAX / 10;
      this.lines = this.lines.slice(excess);
      this.droppedCount += excess;
    }
    this.notifier.notify();
  }
}
