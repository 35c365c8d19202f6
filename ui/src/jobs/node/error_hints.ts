// Hints on how to fix an error, by its type.

import type { NodeError } from "../../api/types";

const BY_TYPE: Record<string, string> = {
  upstream_failed: "The node did not run because an upstream node failed. Fix that node, then retry the job.",
  cancelled: "Retry the job to run the cancelled nodes. Completed nodes keep their output.",
  timeout: "The timeout was exceeded. Raise the timeout or reduce the work.",
  node_timeout: "The timeout was exceeded. Raise timeout_seconds or reduce the work.",
  loop_timeout: "The timeout of the loop was exceeded. Raise the timeout or the concurrency.",
  template_failed: "A template could not be rendered. Check the values that it refers to.",
  handler_not_found: "No worker has this handler. Check the name, or start a worker with the handler.",
  params_invalid: "The params do not match the handler. Fix the workflow, or the input that the params refer to.",
  output_invalid: "The output must be JSON of limited size. Return less, or write to a sink.",
  code_invalid: "The code does not compile. Fix it in the workflow and deploy again.",
  exit_code: "The program exited with an error. Its last output is in the message and in the logs.",
  command_unusable: "The program does not exist on the worker or is not executable.",
  connection_failed: "The remote server did not respond. Retry when it is available.",
  connection_unknown: "The worker has no connection with this name. Configure it, or fix the name.",
  worker_lost: "The worker process died. If it happens again, check the memory of the worker.",
};

const BY_CLASS: Record<string, string> = {
  timeout: "The timeout was exceeded. Raise the timeout or reduce the work.",
  rate_limited: "The remote server limits the rate of requests. Limit the loop's concurrency or raise the backoff.",
  infra: "The cause is outside the handler. Retry when the machine or service is available.",
};

/** Return a hint, or null if only the message can help. A hint of the error itself comes first. */
export function errorHint(error: NodeError): string | null {
  const hint = error.hint ?? BY_TYPE[error.type ?? ""] ?? BY_CLASS[error.failure_class ?? ""];
  if (hint) {
    return hint;
  }
  if (error.status === 401 || error.status === 403) {
    return "The remote server denied access. Check the connection or secret in the params.";
  }
  if (error.retryable === false) {
    return "Another attempt would fail too. Fix the input or the workflow, then retry.";
  }
  return null;
}
