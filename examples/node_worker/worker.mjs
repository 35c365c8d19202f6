#!/usr/bin/env node
// A Windlass worker in JavaScript: Node.js 20 or newer, no dependencies.
//
// It claims tasks from queues, sends heartbeats, stops tasks that the server no longer needs, and reports each result
// until the server has acknowledged it. Add your own handlers to the table below.

import os from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const SERVER = process.env.WINDLASS_SERVER ?? "http://127.0.0.1:8470";
const QUEUES = (process.env.NODE_WORKER_QUEUES ?? "node").split(",").map((name) => name.trim());
const HOST = os.hostname().replace(/[^A-Za-z0-9_.-]/g, "-");
const WORKER_ID = process.env.NODE_WORKER_ID ?? `node-${HOST}-${process.pid}`;
const CONCURRENCY = Number(process.env.NODE_WORKER_CONCURRENCY ?? 4);
const HEARTBEAT_SECONDS = Number(process.env.NODE_WORKER_HEARTBEAT_SECONDS ?? 5); // at most; the server may require more
const HEARTBEATS_PER_TIMEOUT = 3;
const INTERVAL_CHECK_MS = 500;
const GRACE_SECONDS = Number(process.env.NODE_WORKER_GRACE_SECONDS ?? 20);
const CLAIM_WAIT_SECONDS = 30;
const CALL_SECONDS_MAX = 30;
const FINAL_REPORT_SECONDS = 5;
const RETRY_DELAY_MS_MIN = 200;
const RETRY_DELAY_MS_MAX = 10_000;
const CANCELLED = "the task is no longer needed";
const SHUTDOWN = "the worker is stopping";

// ---------------------------------------------------------------------------------------------------------------------
// Handlers: name -> async ({ params, signal, task }) => JSON. `signal` aborts when the task must stop.

/** A task failure; `retryable` says whether another attempt may succeed. */
class TaskError extends Error {
  constructor(type, message, { retryable = true, retryAfter } = {}) {
    super(message);
    this.type = type;
    this.retryable = retryable;
    this.retryAfter = retryAfter;
  }
}

function textOf(params) {
  if (typeof params.text !== "string") {
    throw new TaskError("params_invalid", "`text` must be a string", { retryable: false });
  }
  return params.text;
}

const handlers = {
  async slugify({ params }) {
    const plain = textOf(params).normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
    return { slug: plain.replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "") };
  },

  async wordcount({ params }) {
    const words = textOf(params).toLowerCase().match(/\p{L}+/gu) ?? [];
    const counts = new Map();
    for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
    const most = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 3);
    return { words: words.length, most: most.map(([word, count]) => ({ word, count })) };
  },

  async pause({ params, signal }) {
    await sleep(1000 * (params.seconds ?? 1), undefined, { signal });
    return { seconds: params.seconds ?? 1 };
  },
};

// ---------------------------------------------------------------------------------------------------------------------
// HTTP calls.

/** The server rejected the request; repeating it does not help. */
class Rejected extends Error {}

function post(path, body, options) {
  return send("POST", path, { ...options, body });
}

async function send(method, path, { body, signal, seconds = CALL_SECONDS_MAX } = {}) {
  const limits = [AbortSignal.timeout(1000 * seconds), ...(signal ? [signal] : [])];
  const response = await fetch(`${SERVER}/api/v1${path}`, {
    method,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.any(limits),
  });
  const text = await response.text();
  if (response.ok) return text === "" ? null : JSON.parse(text);
  const message = `${path} returned ${response.status}: ${text.slice(0, 500)}`;
  const isRetryable = response.status >= 500 || response.status === 408 || response.status === 429;
  if (isRetryable) throw new Error(message);
  throw new Rejected(message);
}

/** Repeat a call with increasing delays until it succeeds, is rejected, or `signal` aborts. */
async function retry(what, call, signal) {
  for (let delay = RETRY_DELAY_MS_MIN; ; delay = Math.min(2 * delay, RETRY_DELAY_MS_MAX)) {
    try {
      return await call();
    } catch (error) {
      if (error instanceof Rejected || signal?.aborted) throw error;
      log(`${what} failed, retrying: ${error.cause?.code ?? error.message}`);
      await sleep(delay * (0.5 + Math.random() / 2), undefined, { signal });
    }
  }
}

function log(text) {
  console.log(`${WORKER_ID} ${text}`);
}

// ---------------------------------------------------------------------------------------------------------------------
// Tasks.

const running = new Map(); // task id -> { stop, done }; a task stays here until its result is reported
const stopping = new AbortController(); // aborted at the first signal: no more claims
const exiting = new AbortController(); // aborted at the end: no more heartbeats and retries
let slotFreed = () => {};
let heartbeatSeconds = HEARTBEAT_SECONDS;

async function run(task, stop) {
  const began = performance.now();
  const result = { task_id: task.task_id, job_id: task.job_id, node_id: task.node_id, worker_id: WORKER_ID };
  const timeout = AbortSignal.timeout(1000 * task.timeout_seconds);
  const signal = AbortSignal.any([stop.signal, timeout]);
  try {
    // A handler that ignores its signal is abandoned.
    const output = await Promise.race([handlerOf(task)({ params: task.params, signal, task }), aborted(signal)]);
    result.output = output ?? null;
    result.status = "completed";
  } catch (error) {
    if (stop.signal.reason === CANCELLED) return log(`stopped ${task.task_id}`);
    result.status = "failed";
    result.error = describe(error, task, stop, timeout);
  }
  result.execution_duration_ms = performance.now() - began;
  await report(result);
}

function handlerOf(task) {
  if (task.sink) {
    // The worker must write the sink before it reports. This one supports no sinks, so the task has to fail.
    const message = `this worker cannot write to the sink '${task.sink.tool}'`;
    throw new TaskError("sink_not_found", message, { retryable: false });
  }
  if (Object.hasOwn(handlers, task.handler)) return handlers[task.handler];
  const known = Object.keys(handlers).join(", ");
  const message = `no handler is called '${task.handler}', only: ${known}`;
  throw new TaskError("handler_not_found", message, { retryable: false });
}

function aborted(signal) {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));
}

function describe(error, task, stop, timeout) {
  // This type uses up none of the author's attempts: the task goes to another worker immediately.
  if (stop.signal.aborted) return { type: "worker_lost", message: `the worker ${WORKER_ID} was stopped` };
  if (timeout.aborted) return { type: "timeout", message: `'${task.handler}' took longer than ${task.timeout_seconds} s` };
  const { name, type = name, message, retryable = true, retryAfter, stack } = error;
  return { type, message, retryable, retry_after: retryAfter ?? null, traceback: stack ?? null };
}

async function report(result) {
  try {
    const send = () => post("/callbacks/task-result", result);
    const response = await retry(`reporting ${result.task_id}`, send, exiting.signal);
    log(`${result.status} ${result.task_id}${response.duplicate ? " (duplicate)" : ""}`);
  } catch (error) {
    log(`gave up reporting ${result.task_id}: ${error.message}`);
  }
}

function start(task) {
  // A restarted server delivers tasks again that are still running here.
  if (running.has(task.task_id)) return;
  const stop = new AbortController();
  log(`claimed ${task.task_id}`);
  const done = run(task, stop).finally(() => {
    running.delete(task.task_id);
    slotFreed();
  });
  running.set(task.task_id, { stop, done });
}

async function claim() {
  const request = { worker_id: WORKER_ID, queues: QUEUES, wait: CLAIM_WAIT_SECONDS };
  while (!stopping.signal.aborted) {
    const free = CONCURRENCY - running.size;
    if (free <= 0) {
      await new Promise((resolve) => { slotFreed = resolve; });
      continue;
    }
    const options = { signal: stopping.signal, seconds: CLAIM_WAIT_SECONDS + CALL_SECONDS_MAX };
    const send = () => post("/tasks/claim", { ...request, max_tasks: free }, options);
    const claimed = await retry("claiming", send, stopping.signal);
    adaptHeartbeats(claimed.worker_timeout_seconds);
    claimed.tasks.forEach(start);
  }
}

/** Send heartbeats often enough for the timeout of the engines. */
function adaptHeartbeats(workerTimeoutSeconds) {
  const seconds = Math.min(HEARTBEAT_SECONDS, workerTimeoutSeconds / HEARTBEATS_PER_TIMEOUT);
  if (seconds !== heartbeatSeconds) {
    heartbeatSeconds = seconds;
    log(`heartbeats every ${seconds} s: after ${workerTimeoutSeconds} s without one the worker is lost`);
  }
}

/** Wait for the next heartbeat; an interval that becomes shorter meanwhile applies at once. */
async function pauseHeartbeats() {
  const began = performance.now();
  for (;;) {
    const remaining = began + 1000 * heartbeatSeconds - performance.now();
    if (remaining <= 0) return;
    await sleep(Math.min(remaining, INTERVAL_CHECK_MS), undefined, { signal: exiting.signal });
  }
}

async function sendHeartbeats() {
  while (!exiting.signal.aborted) {
    await pauseHeartbeats();
    try {
      const answer = await post("/tasks/heartbeat", { worker_id: WORKER_ID, task_ids: [...running.keys()] });
      adaptHeartbeats(answer.worker_timeout_seconds);
      for (const taskId of answer.stop) running.get(taskId)?.stop.abort(CANCELLED);
    } catch (error) {
      log(`the heartbeat failed: ${error.cause?.code ?? error.message}`);
    }
  }
}

async function finish() {
  await allDone(GRACE_SECONDS);
  for (const { stop } of running.values()) stop.abort(SHUTDOWN);
  await allDone(FINAL_REPORT_SECONDS);
  exiting.abort();
}

/** Leave the list of workers; otherwise this one would be listed as stale for a while. */
async function deregister() {
  try {
    await send("DELETE", `/workers/${encodeURIComponent(WORKER_ID)}`, { seconds: FINAL_REPORT_SECONDS });
  } catch (error) {
    log(`the worker stays listed: ${error.cause?.code ?? error.message}`);
  }
}

/** Wait for all running tasks, with a time limit. */
function allDone(seconds) {
  const every = Promise.allSettled([...running.values()].map(({ done }) => done));
  return Promise.race([every, sleep(1000 * seconds, undefined, { ref: false })]);
}

for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, () => {
    if (stopping.signal.aborted) process.exit(130); // second signal
    log(`stopping: ${running.size} tasks are running`);
    stopping.abort();
    slotFreed();
  });
}

log(`serving ${QUEUES.join(", ")} of ${SERVER}`);
const heartbeats = sendHeartbeats().catch(() => {});
try {
  await claim();
} catch (error) {
  if (!stopping.signal.aborted) {
    log(error.message);
    process.exitCode = 1;
  }
}
await finish();
await heartbeats;
await deregister();
log("stopped");
