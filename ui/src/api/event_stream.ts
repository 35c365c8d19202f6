// Follows a stream of server-sent events, and takes it up again after whatever was seen last when it breaks.

import { address, problemOf, type Query } from "./client";

export type Connection = "connecting" | "live" | "lost" | "ended";

interface Following<T> {
  after: number;
  query?: Query;
  /** Called with all messages of a moment at once, so that a burst is drawn once. */
  onMessages(messages: T[], lastId: number): void;
  onConnection?(connection: Connection): void;
  signal: AbortSignal;
}

const WAIT_FIRST_MS = 500;
const WAIT_MAX_MS = 5_000;
const GATHER_MS = 80;
// The server says something at least every 15 seconds.
const SILENCE_MAX_MS = 40_000;

/** Returns once the stream has told everything or the signal came; a Problem when the server refuses for good. */
export async function follow<T>(path: string, following: Following<T>): Promise<void> {
  const { signal, onConnection } = following;
  let after = following.after;
  let wait = WAIT_FIRST_MS;
  const seen = (id: number) => {
    after = id;
    wait = WAIT_FIRST_MS;
  };
  while (!signal.aborted) {
    onConnection?.("connecting");
    const before = after;
    const end = await once(address(path, { ...following.query, after }), following, seen);
    if (end === "told" || signal.aborted) {
      onConnection?.("ended");
      return;
    }
    // The server closes a stream after the last event, and when it stops: the next connection tells which.
    if (end === "closed" && after > before) {
      continue;
    }
    onConnection?.("lost");
    await pause(wait, signal);
    wait = Math.min(wait * 2, WAIT_MAX_MS);
  }
}

/** One connection, and how it ended: with nothing left to tell, by the server, or by an accident. */
async function once<T>(
  url: string,
  following: Following<T>,
  seen: (id: number) => void,
): Promise<"told" | "closed" | "broken"> {
  const silence = new AbortController();
  const stop = () => silence.abort();
  following.signal.addEventListener("abort", stop, { once: true });
  let timer = setTimeout(stop, SILENCE_MAX_MS);
  const gathered = new Gathered(following, seen);
  try {
    const response = await fetch(url, { signal: silence.signal, headers: { accept: "text/event-stream" } });
    if (response.status === 204) {
      return "told";
    }
    if (!response.ok || !response.body) {
      const problem = await problemOf(response);
      if (response.status >= 500 || response.status === 429) {
        return "broken";
      }
      throw problem;
    }
    following.onConnection?.("live");
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parse = parser<T>((message, id) => gathered.add(message, id));
    while (true) {
      const { done, value } = await reader.read();
      clearTimeout(timer);
      if (done) {
        return "closed";
      }
      timer = setTimeout(stop, SILENCE_MAX_MS);
      parse(value);
    }
  } catch (error) {
    if (error instanceof Error && error.name === "Problem") {
      throw error;
    }
    return "broken";
  } finally {
    // Before the next connection, which begins after what was seen.
    gathered.flush();
    clearTimeout(timer);
    following.signal.removeEventListener("abort", stop);
  }
}

/** Messages of a short while, told together. */
class Gathered<T> {
  private messages: T[] = [];
  private lastId = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly following: Following<T>;
  private readonly seen: (id: number) => void;

  constructor(following: Following<T>, seen: (id: number) => void) {
    this.following = following;
    this.seen = seen;
  }

  /** Without a message it is a number that the stream has passed by. */
  add(message: T | null, id: number): void {
    if (message !== null) {
      this.messages.push(message);
    }
    this.lastId = id;
    this.timer ??= setTimeout(() => this.flush(), GATHER_MS);
  }

  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.lastId === 0 || this.following.signal.aborted) {
      return;
    }
    const messages = this.messages;
    this.messages = [];
    this.seen(this.lastId);
    if (messages.length > 0) {
      this.following.onMessages(messages, this.lastId);
    }
  }
}

/** Takes the text of a stream in pieces, however it was cut, and tells each message with its id, or an id alone. */
export function parser<T>(tell: (message: T | null, id: number) => void): (piece: string) => void {
  let rest = "";
  return (piece) => {
    const blocks = (rest + piece).split("\n\n");
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
        tell(data ? (JSON.parse(data) as T) : null, id);
      }
    }
  };
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
