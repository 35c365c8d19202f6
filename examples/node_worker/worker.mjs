#!/usr/bin/env node
// A Windlass worker in JavaScript: Node.js 20 or newer, nothing to install.
//
// It claims tasks from queues, says every few seconds that it lives, stops what the server no longer wants,
// and reports each end until the server has it. Put your own handlers into the table below.

import os from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const SERVER = process.env.WINDLASS_SERVER ?? "http://127.0.0.1:8470";
const QUEUES = (process.env.WINDLASS_QUEUES ?? "node").split(",").map((name) => name.trim());
const HOST = os.hostname().replace(/[^A-Za-z0-9_.-]/g, "-");
const WORKER_ID = process.env.WINDLASS_WORKER_ID ?? `node-${HOST}-${process.pid}`;
const CONCURRENCY = Number(process.env.WINDLASS_CONCURRENCY ?? 4);
const HEARTBEAT_SECONDS = Number(process.env.WINDLASS_HEARTBEAT_SECONDS ?? 5); // the server gives up after 15
const GRACE_SECONDS = Number(process.env.WINDLASS_GRACE_SECONDS ?? 20);
const CLAIM_WAIT_SECONDS = 30;
const CALL_SECONDS_MAX = 30;
const LAST_SECONDS = 5; // for the last reports
const PAUSE_MS_MIN = 200;
const PAUSE_MS_MAX = 10_000;
const CANCELLED = "the job no longer wants it";
const LEAVING = "the worker stops";

// ---------------------------------------------------------------------------------------------------------------------
// Handlers: name -> async ({ params, signal, task }) => JSON. `signal` aborts when the task is to stop.

/** An error whose `retryable` says whether another attempt can help. */
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
// Talking to the server.

/** The server said no, and will say so again. */
class Refused extends Error {}

async function post(path, body, { signal, seconds = CALL_SECONDS_MAX } = {}) {
  const limits = [AbortSignal.timeout(1000 * seconds), ...(signal ? [signal] : [])];
  const answer = await fetch(`${SERVER}/api/v1${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.any(limits),
  });
  const text = await answer.text();
  if (answer.ok) return JSON.parse(text);
  const worthAnotherTry = answer.status >= 500 || answer.status === 408 || answer.status === 429;
  throw new (worthAnotherTry ? Error : Refused)(`${path} was answered ${answer.status}: ${text.slice(0, 500)}`);
}

/** Calls until it works, with growing pauses while the server is away; gives up when refused, or by `signal`. */
async function persist(what, call, signal) {
  for (let pause = PAUSE_MS_MIN; ; pause = Math.min(2 * pause, PAUSE_MS_MAX)) {
    try {
      return await call();
    } catch (error) {
      if (error instanceof Refused || signal?.aborted) throw error;
      say(`${what} failed, again soon: ${error.cause?.code ?? error.message}`);
      await sleep(pause * (0.5 + Math.random() / 2), undefined, { signal });
    }
  }
}

function say(text) {
  console.log(`${WORKER_ID} ${text}`);
}

// ---------------------------------------------------------------------------------------------------------------------
// Work.

const running = new Map(); // task id -> { stop, done }; a task stays here until its result is reported
const stopping = new AbortController(); // no more claims
const leaving = new AbortController(); // no more patience either
let slotFreed = () => {};

async function run(task, stop) {
  const began = performance.now();
  const result = { task_id: task.task_id, job_id: task.job_id, node_id: task.node_id, worker_id: WORKER_ID };
  const late = AbortSignal.timeout(1000 * task.timeout_seconds);
  const signal = AbortSignal.any([stop.signal, late]);
  try {
    // A handler that does not look at its signal is left to itself.
    const output = await Promise.race([handlerOf(task)({ params: task.params, signal, task }), aborted(signal)]);
    result.output = output ?? null;
    result.status = "completed";
  } catch (error) {
    if (stop.signal.reason === CANCELLED) return say(`stopped ${task.task_id}`);
    result.status = "failed";
    result.error = describe(error, task, stop, late);
  }
  result.execution_duration_ms = performance.now() - began;
  await report(result);
}

function handlerOf(task) {
  if (task.sink) {
    // A sink is written by whoever runs the task, before the report. This worker has none; it must not keep that quiet.
    const message = `this worker can not write to the sink '${task.sink.tool}'`;
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

function describe(error, task, stop, late) {
  // This type costs none of the author's attempts: the task goes to another worker at once.
  if (stop.signal.aborted) return { type: "worker_lost", message: `the worker ${WORKER_ID} was stopped` };
  if (late.aborted) return { type: "timeout", message: `'${task.handler}' took longer than ${task.timeout_seconds} s` };
  const { name, type = name, message, retryable = true, retryAfter, stack } = error;
  return { type, message, retryable, retry_after: retryAfter ?? null, traceback: stack ?? null };
}

async function report(result) {
  try {
    const send = () => post("/callbacks/task-result", result);
    const answer = await persist(`reporting ${result.task_id}`, send, leaving.signal);
    say(`${result.status} ${result.task_id}${answer.duplicate ? " (was known)" : ""}`);
  } catch (error) {
    say(`gave up reporting ${result.task_id}: ${error.message}`);
  }
}

function start(task) {
  // A server that was restarted hands out again what it can not know to be running here.
  if (running.has(task.task_id)) return;
  const stop = new AbortController();
  say(`claimed ${task.task_id}`);
  const done = run(task, stop).finally(() => {
    running.delete(task.task_id);
    slotFreed();
  });
  running.set(task.task_id, { stop, done });
}

async function claim() {
  const wanted = { worker_id: WORKER_ID, queues: QUEUES, wait: CLAIM_WAIT_SECONDS };
  while (!stopping.signal.aborted) {
    const free = CONCURRENCY - running.size;
    if (free <= 0) {
      await new Promise((resolve) => { slotFreed = resolve; });
      continue;
    }
    const options = { signal: stopping.signal, seconds: CLAIM_WAIT_SECONDS + CALL_SECONDS_MAX };
    const ask = () => post("/tasks/claim", { ...wanted, max_tasks: free }, options);
    const { tasks } = await persist("claiming", ask, stopping.signal);
    tasks.forEach(start);
  }
}

async function beat() {
  while (!leaving.signal.aborted) {
    await sleep(1000 * HEARTBEAT_SECONDS, undefined, { signal: leaving.signal });
    try {
      const { stop } = await post("/tasks/heartbeat", { worker_id: WORKER_ID, task_ids: [...running.keys()] });
      for (const taskId of stop) running.get(taskId)?.stop.abort(CANCELLED);
    } catch (error) {
      say(`the heartbeat failed: ${error.cause?.code ?? error.message}`);
    }
  }
}

async function finish() {
  await allDone(GRACE_SECONDS);
  for (const { stop } of running.values()) stop.abort(LEAVING);
  await allDone(LAST_SECONDS);
  leaving.abort();
}

/** Waits for all that runs, so long at most. */
function allDone(seconds) {
  const every = Promise.allSettled([...running.values()].map(({ done }) => done));
  return Promise.race([every, sleep(1000 * seconds, undefined, { ref: false })]);
}

for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, () => {
    if (stopping.signal.aborted) process.exit(130); // asked twice
    say(`stops: ${running.size} tasks are under way`);
    stopping.abort();
    slotFreed();
  });
}

say(`serves ${QUEUES.join(", ")} of ${SERVER}`);
const beating = beat().catch(() => {});
try {
  await claim();
} catch (error) {
  if (!stopping.signal.aborted) {
    say(error.message);
    process.exitCode = 1;
  }
}
await finish();
await beating;
say("has stopped");
