// Reads a stream of server-sent events and reconnects after the last message received.

import { type Query, toApiError, withQuery } from "./client";

export type ConnectionState = "connecting" | "live" | "lost" | "ended";

interface StreamOptions<T> {
  after: number;
  query?: Query;
  /** Receives messages in batches, so that a burst causes one render. */
  onMessages(messages: T[], lastId: number): void;
  onConnection?(connection: ConnectionState): void;
  signal: AbortSignal;
}

const RETRY_FIRST_MS = 500;
const RETRY_MAX_MS = 5_000;
const BATCH_MS = 80;
// The server sends a message or a comment at least every 15 seconds.
const IDLE_TIMEOUT_MS = 40_000;

/** Read the stream until it ends or the signal is aborted. Throws an ApiError if the server rejects the request. */
export async function followStream<T>(path: string, options: StreamOptions<T>): Promise<void> {
  const { signal, onConnection } = options;
  let after = options.after;
  let retryMs = RETRY_FIRST_MS;
  const onReceived = (id: number) => {
    after = id;
    retryMs = RETRY_FIRST_MS;
  };
  while (!signal.aborted) {
    onConnection?.("connecting");
    const before = after;
    const result = await readOnce(withQuery(path, { ...options.query, after }), options, onReceived);
    if (result === "complete" || signal.aborted) {
      onConnection?.("ended");
      return;
    }
    // The server closes the stream after the last event and when it stops: the next connection shows which it was.
    if (result === "closed" && after > before) {
      continue;
    }
    onConnection?.("lost");
    await sleep(retryMs, signal);
    retryMs = Math.min(retryMs * 2, RETRY_MAX_MS);
  }
}

/** Read one connection; "complete" means that there are no further messages. */
async function readOnce<T>(
  url: string,
  options: StreamOptions<T>,
  onReceived: (id: number) => void,
): Promise<"complete" | "closed" | "failed"> {
  const controller = new AbortController();
  const abort = () => controller.abort();
  options.signal.addEventListener("abort", abort, { once: true });
  let timer = setTimeout(abort, IDLE_TIMEOUT_MS);
  const batch = new MessageBatch(options, onReceived);
  try {
    const response = await fetch(url, { signal: controller.signal, headers: { accept: "text/event-stream" } });
    if (response.status === 204) {
      return "complete";
    }
    if (!response.ok || !response.body) {
      const error = await toApiError(response);
      if (response.status >= 500 || response.status === 429) {
        return "failed";
      }
      throw error;
    }
    options.onConnection?.("live");
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parse = createParser<T>((message, id) => batch.add(message, id));
    while (true) {
      const { done, value } = await reader.read();
      clearTimeout(timer);
      if (done) {
        return "closed";
      }
      timer = setTimeout(abort, IDLE_TIMEOUT_MS);
      parse(value);
    }
  } catch (error) {
    if (error instanceof Error && error.name === "ApiError") {
      throw error;
    }
    return "failed";
  } finally {
    // Before the next connection, which starts after the last message received.
    batch.flush();
    clearTimeout(timer);
    options.signal.removeEventListener("abort", abort);
  }
}

/** Collects messages for a short time and delivers them together. */
class MessageBatch<T> {
  private messages: T[] = [];
  private lastId = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly options: StreamOptions<T>;
  private readonly onReceived: (id: number) => void;

  constructor(options: StreamOptions<T>, onReceived: (id: number) => void) {
    this.options = options;
    this.onReceived = onReceived;
  }

  /** Add a message; null for an id without a message, which only moves the position. */
  add(message: T | null, id: number): void {
    if (message !== null) {
      this.messages.push(message);
    }
    this.lastId = id;
    this.timer ??= setTimeout(() => this.flush(), BATCH_MS);
  }

  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.lastId === 0 || this.options.signal.aborted) {
      return;
    }
    const messages = this.messages;
    this.messages = [];
    this.onReceived(this.lastId);
    if (messages.length > 0) {
      this.options.onMessages(messages, this.lastId);
    }
  }
}

/** Return a function that takes the stream's text in chunks of any size and emits each message with its id. */
export function createParser<T>(emit: (message: T | null, id: number) => void): (chunk: string) => void {
  let rest = "";
  return (chunk) => {
    const blocks = (rest + chunk).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      let id = 0;
      let data = "";
      for (const line of block.split("\n")) {
        if (line.startsWith("id: ")) {
          id = Number(line.slice(4));
        } else if (line.startsWith("data: ")) {
          data += line.slice(6);
        }
      }
      if (id > 0) {
        emit(data ? (JSON.parse(data) as T) : null, id);
      }
    }
  };
}

function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
