import { afterEach, describe, expect, it, vi } from "vitest";
import { type Connection, follow, parser } from "./event_stream";

const message = (id: number) => `id: ${id}\nevent: node_ready\ndata: {"seq": ${id}}\n\n`;

describe("a stream's text", () => {
  it("is understood however it was cut", () => {
    const text = `: still here\n\n${message(1)}id: 2\n\n${message(3)}`;
    for (let cut = 0; cut <= text.length; cut++) {
      const seen: number[] = [];
      const parse = parser<{ seq: number }>((told, id) => seen.push(told?.seq ?? 0, id));

      parse(text.slice(0, cut));
      parse(text.slice(cut));

      expect(seen).toEqual([1, 1, 0, 2, 3, 3]);
    }
  });
});

describe("following", () => {
  afterEach(() => vi.unstubAllGlobals());

  /** A server that answers each connection with the next of these; a null is a refused connection. */
  function serve(...answers: (Response | null)[]): string[] {
    const asked: string[] = [];
    vi.stubGlobal("fetch", async (url: string) => {
      asked.push(url);
      const answer = answers.shift();
      if (!answer) {
        throw new TypeError("refused");
      }
      return answer;
    });
    return asked;
  }

  async function followed(after: number): Promise<{ seen: number[]; connections: Connection[] }> {
    const seen: number[] = [];
    const connections: Connection[] = [];
    await follow<{ seq: number }>("/stream", {
      after,
      onMessages: (messages) => seen.push(...messages.map(({ seq }) => seq)),
      onConnection: (connection) => connections.push(connection),
      signal: new AbortController().signal,
    });
    return { seen, connections };
  }

  it("goes on after what was seen last when a connection breaks", async () => {
    const asked = serve(
      new Response(message(5) + message(6)),
      null,
      new Response(message(7)),
      new Response(null, { status: 204 }),
    );

    const { seen, connections } = await followed(4);

    expect(seen).toEqual([5, 6, 7]);
    expect(asked).toEqual(["/stream?after=4", "/stream?after=6", "/stream?after=6", "/stream?after=7"]);
    expect(connections.filter((connection) => connection === "lost")).toHaveLength(1);
    expect(connections.at(-1)).toBe("ended");
  });

  it("goes on after the numbers that the server passed by", async () => {
    const asked = serve(new Response(`${message(1)}id: 900\n\n`), new Response(null, { status: 204 }));

    await followed(0);

    expect(asked[1]).toBe("/stream?after=900");
  });

  it("tells nothing twice when a connection breaks in the middle of a burst", async () => {
    const broken = new ReadableStream({
      start: (stream) => stream.enqueue(new TextEncoder().encode(message(1))),
      pull: (stream) => stream.error(new TypeError("reset")),
    });
    const asked = serve(new Response(broken), new Response(null, { status: 204 }));

    const { seen } = await followed(0);

    expect(seen).toEqual([1]);
    expect(asked[1]).toBe("/stream?after=1");
  });

  it("waits out a server that is not ready", async () => {
    serve(new Response("{}", { status: 503 }), new Response(null, { status: 204 }));

    expect((await followed(0)).connections.at(-1)).toBe("ended");
  });

  it("gives up what the server refuses, with its words", async () => {
    serve(new Response(JSON.stringify({ detail: "there is no job x" }), { status: 404 }));

    await expect(followed(0)).rejects.toThrow("there is no job x");
  });
});
