import { afterEach, describe, expect, it, vi } from "vitest";
import { type ConnectionState, createParser, followStream } from "./event_stream";

const message = (id: number) => `id: ${id}\nevent: node_ready\ndata: {"seq": ${id}}\n\n`;

describe("createParser", () => {
  it("parses the stream however it is split into chunks", () => {
    const text = `: keep-alive\n\n${message(1)}id: 2\n\n${message(3)}`;
    for (let cut = 0; cut <= text.length; cut++) {
      const seen: number[] = [];
      const parse = createParser<{ seq: number }>((parsed, id) => seen.push(parsed?.seq ?? 0, id));

      parse(text.slice(0, cut));
      parse(text.slice(cut));

      expect(seen).toEqual([1, 1, 0, 2, 3, 3]);
    }
  });
});

describe("followStream", () => {
  afterEach(() => vi.unstubAllGlobals());

  /** Respond to each connection with the next response; null refuses the connection. Returns the requested URLs. */
  function serve(...responses: (Response | null)[]): string[] {
    const requested: string[] = [];
    vi.stubGlobal("fetch", async (url: string) => {
      requested.push(url);
      const response = responses.shift();
      if (!response) {
        throw new TypeError("refused");
      }
      return response;
    });
    return requested;
  }

  async function readAll(after: number): Promise<{ seen: number[]; connections: ConnectionState[] }> {
    const seen: number[] = [];
    const connections: ConnectionState[] = [];
    await followStream<{ seq: number }>("/stream", {
      after,
      onMessages: (messages) => seen.push(...messages.map(({ seq }) => seq)),
      onConnection: (connection) => connections.push(connection),
      signal: new AbortController().signal,
    });
    return { seen, connections };
  }

  it("resumes after the last message when a connection breaks", async () => {
    const requested = serve(
      new Response(message(5) + message(6)),
      null,
      new Response(message(7)),
      new Response(null, { status: 204 }),
    );

    const { seen, connections } = await readAll(4);

    expect(seen).toEqual([5, 6, 7]);
    expect(requested).toEqual(["/stream?after=4", "/stream?after=6", "/stream?after=6", "/stream?after=7"]);
    expect(connections.filter((connection) => connection === "lost")).toHaveLength(1);
    expect(connections.at(-1)).toBe("ended");
  });

  it("resumes after ids without a message", async () => {
    const requested = serve(new Response(`${message(1)}id: 900\n\n`), new Response(null, { status: 204 }));

    await readAll(0);

    expect(requested[1]).toBe("/stream?after=900");
  });

  it("delivers no message twice when a connection breaks in a burst", async () => {
    const broken = new ReadableStream({
      start: (stream) => stream.enqueue(new TextEncoder().encode(message(1))),
      pull: (stream) => stream.error(new TypeError("reset")),
    });
    const requested = serve(new Response(broken), new Response(null, { status: 204 }));

    const { seen } = await readAll(0);

    expect(seen).toEqual([1]);
    expect(requested[1]).toBe("/stream?after=1");
  });

  it("retries while the server is not ready", async () => {
    serve(new Response("{}", { status: 503 }), new Response(null, { status: 204 }));

    expect((await readAll(0)).connections.at(-1)).toBe("ended");
  });

  it("throws the error of a request that the server rejects", async () => {
    serve(new Response(JSON.stringify({ detail: "job not found: x" }), { status: 404 }));

    await expect(readAll(0)).rejects.toThrow("job not found: x");
  });
});
