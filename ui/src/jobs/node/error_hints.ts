// What somebody can do about an error, by what is known of it.

import type { NodeError } from "../../api/types";

const BY_TYPE: Record<string, string> = {
  upstream_failed: "It never ran: a node before it failed. Mend that one, then retry the job.",
  cancelled: "Retry the job to run what was cancelled; what completed keeps its output.",
  timeout: "It took longer than its timeout allows. Raise the timeout, or give it less to do.",
  node_timeout: "It took longer than its timeout allows. Raise timeout_seconds, or give it less to do.",
  loop_timeout: "The loop took longer than its timeout allows. Raise the timeout or its concurrency.",
  template_failed: "A template could not be filled in. Compare it with the values that it reads.",
  handler_not_found: "No handler has this name. Mend the name, or start a worker that has the handler.",
  params_invalid: "The params below do not fit the handler. Mend them in the workflow, or the input they are made of.",
  output_invalid: "A handler gives back JSON of a bounded size. Give back less, or write it to a sink.",
  code_invalid: "The code does not compile. Mend it in the workflow and deploy that.",
  exit_code: "The program said that it failed; its last words are in the message and in the logs.",
  command_unusable: "The worker has no such program, or may not run it.",
  connection_failed: "The other side did not answer. Retry once it is there again.",
  connection_unknown: "No connection has this name on the worker. Set it there, or mend the name.",
  worker_lost: "The process that ran it died. When that happens again, look at the worker's memory.",
};

const BY_CLASS: Record<string, string> = {
  timeout: "It took longer than it may. Raise the timeout, or give it less to do.",
  rate_limited: "The other side asks for fewer calls. A limit on the loop's concurrency or a longer backoff helps.",
  infra: "The cause lies outside the handler. Retry once the machine or service it needs is well.",
};

/** A way out, or null where only the message can tell. The error's own hint comes first. */
export function adviceOn(error: NodeError): string | null {
  const known = error.hint ?? BY_TYPE[error.type ?? ""] ?? BY_CLASS[error.failure_class ?? ""];
  if (known) {
    return known;
  }
  if (error.status === 401 || error.status === 403) {
    return "The other side refused who asked. Look at the connection or secret that the params name.";
  }
  if (error.retryable === false) {
    return "Another attempt would fail the same way. Mend the input or the workflow, then retry.";
  }
  return null;
}
