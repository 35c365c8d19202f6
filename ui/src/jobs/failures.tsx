// The failures that a completed job tolerated.

import { pluralize } from "../lib/format";

export function Failures({ status, failures }: { status: string; failures: number }) {
  if (status !== "completed" || failures === 0) {
    return null;
  }
  return (
    <span className="ml-1.5 whitespace-nowrap font-medium text-failed">{` with ${pluralize(failures, "failure")}`}</span>
  );
}
