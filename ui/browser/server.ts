// A real `windlass dev` for the tests of one file, on a port and a database of its own; it can be killed and restarted.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test as plain } from "@playwright/test";

const WINDLASS = resolve(import.meta.dirname, "../../.venv/bin/windlass");
const WORKFLOWS = resolve(import.meta.dirname, "workflows");
export const EXAMPLES = resolve(import.meta.dirname, "../../examples");
const START_MS_MAX = 30_000;

export class Server {
  readonly folder = mkdtempSync(join(tmpdir(), "windlass-ui-"));
  private process: ChildProcess | undefined;
  private output = "";
  readonly port: number;
  private readonly workflows: string;

  constructor(port: number, workflows: string) {
    this.port = port;
    this.workflows = workflows;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async start(): Promise<void> {
    const started = spawn(
      WINDLASS,
      ["dev", this.workflows, "--port", String(this.port), "--database", `sqlite:///${this.folder}/windlass.db`],
      { cwd: this.folder, stdio: ["ignore", "pipe", "pipe"] },
    );
    this.process = started;
    for (const stream of [started.stdout, started.stderr]) {
      stream?.on("data", (piece) => {
        this.output += piece;
      });
    }
    const end = Date.now() + START_MS_MAX;
    while (!(await this.answers())) {
      if (started.exitCode !== null || Date.now() > end) {
        throw new Error(`windlass dev did not start:\n${this.output}`);
      }
      await new Promise((done) => setTimeout(done, 100));
    }
  }

  /** End the process as a power cut would. */
  async kill(): Promise<void> {
    const ended = this.process;
    if (ended && ended.exitCode === null) {
      const gone = new Promise((done) => ended.once("exit", done));
      ended.kill("SIGKILL");
      await gone;
    }
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async post<T>(path: string, body: unknown, type = "application/json"): Promise<T> {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const response = await fetch(`${this.url}/api/v1${path}`, {
      method: "POST",
      headers: { "content-type": type },
      body: text,
    });
    if (!response.ok) {
      throw new Error(`POST ${path}: ${response.status} ${await response.text()}`);
    }
    return response.json() as Promise<T>;
  }

  async get<T>(path: string): Promise<T> {
    const response = await fetch(`${this.url}/api/v1${path}`);
    if (!response.ok) {
      throw new Error(`GET ${path}: ${response.status} ${await response.text()}`);
    }
    return response.json() as Promise<T>;
  }

  /** Start a job; its id. */
  async run(workflowId: string, input: object = {}): Promise<string> {
    return (await this.post<{ job_id: string }>("/jobs", { workflow_id: workflowId, input_data: input })).job_id;
  }

  /** Start a job and wait until it has ended; its id. */
  async runToEnd(workflowId: string, input: object = {}): Promise<string> {
    const jobId = await this.run(workflowId, input);
    for (let turn = 0; turn < 10; turn++) {
      const { completed_at } = await this.get<{ completed_at: string | null }>(`/jobs/${jobId}?wait=30s`);
      if (completed_at !== null) {
        return jobId;
      }
    }
    throw new Error(`job ${jobId} of ${workflowId} does not end`);
  }

  private async answers(): Promise<boolean> {
    try {
      return (await fetch(`${this.url}/readyz`)).ok;
    } catch {
      return false;
    }
  }
}

function freePort(): Promise<number> {
  return new Promise((done, failed) => {
    const probe = createServer();
    probe.once("error", failed);
    probe.listen(0, "127.0.0.1", () => {
      const place = probe.address();
      probe.close(() => done(typeof place === "object" && place ? place.port : 0));
    });
  });
}

/** What the worker of a file's tests is made with: the folder whose workflows its server deploys. */
interface Made {
  workflows: string;
  server: Server;
}

/** Tests with a server; pages open addresses below it, and whatever the page logs as an error fails the test. */
export const test = plain.extend<{ quiet: undefined }, Made>({
  workflows: [WORKFLOWS, { scope: "worker", option: true }],
  server: [
    async ({ workflows }, use) => {
      const server = new Server(await freePort(), workflows);
      await server.start();
      await use(server);
      await server.close();
    },
    { scope: "worker" },
  ],
  baseURL: async ({ server }, use) => use(server.url),
  quiet: [
    async ({ page }, use) => {
      const errors: string[] = [];
      page.on("pageerror", (error) => errors.push(String(error)));
      page.on("console", (message) => {
        if (message.type() === "error" && !/Failed to load resource/.test(message.text())) {
          errors.push(message.text());
        }
      });
      await use(undefined);
      if (errors.length > 0) {
        throw new Error(`the page complained:\n${errors.join("\n")}`);
      }
    },
    { auto: true },
  ],
});

export { expect } from "@playwright/test";
