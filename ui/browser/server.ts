// Runs `windlass dev` with its own port and database for the tests of one file.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test as base } from "@playwright/test";

const WINDLASS = resolve(import.meta.dirname, "../../.venv/bin/windlass");
const WORKFLOWS = resolve(import.meta.dirname, "workflows");
export const EXAMPLES = resolve(import.meta.dirname, "../../examples");
const START_MS_MAX = 30_000;

export class Server {
  readonly directory = mkdtempSync(join(tmpdir(), "windlass-ui-"));
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
    const child = spawn(
      WINDLASS,
      ["dev", this.workflows, "--port", String(this.port), "--database", `sqlite:///${this.directory}/windlass.db`],
      { cwd: this.directory, stdio: ["ignore", "pipe", "pipe"] },
    );
    this.process = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on("data", (chunk) => {
        this.output += chunk;
      });
    }
    const deadline = Date.now() + START_MS_MAX;
    while (!(await this.isReady())) {
      if (child.exitCode !== null || Date.now() > deadline) {
        throw new Error(`windlass dev did not start:\n${this.output}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /** Kill the process without a shutdown. */
  async kill(): Promise<void> {
    const child = this.process;
    if (child && child.exitCode === null) {
      const exited = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await exited;
    }
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.directory, { recursive: true, force: true });
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

  /** Start a job and return its id. */
  async run(workflowId: string, input: object = {}): Promise<string> {
    return (await this.post<{ job_id: string }>("/jobs", { workflow_id: workflowId, input_data: input })).job_id;
  }

  /** Start a job, wait for its end, and return its id. */
  async runToEnd(workflowId: string, input: object = {}): Promise<string> {
    const jobId = await this.run(workflowId, input);
    for (let tries = 0; tries < 10; tries++) {
      const { completed_at } = await this.get<{ completed_at: string | null }>(`/jobs/${jobId}?wait=30s`);
      if (completed_at !== null) {
        return jobId;
      }
    }
    throw new Error(`job did not end: ${jobId} of ${workflowId}`);
  }

  private async isReady(): Promise<boolean> {
    try {
      return (await fetch(`${this.url}/readyz`)).ok;
    } catch {
      return false;
    }
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}

/** Fixtures of a worker. */
interface WorkerFixtures {
  /** The directory of the workflows to deploy. */
  workflows: string;
  server: Server;
}

/** Tests with a server. Paths are relative to it, and an error in the console fails the test. */
export const test = base.extend<{ failOnErrors: undefined }, WorkerFixtures>({
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
  failOnErrors: [
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
        throw new Error(`errors in the console:\n${errors.join("\n")}`);
      }
    },
    { auto: true },
  ],
});

export { expect } from "@playwright/test";
