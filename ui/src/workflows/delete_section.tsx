// Deletes a workflow. Collapsed, to prevent accidental use.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ApiError, apiPath, send, withQuery } from "../api/client";
import { Button, Field } from "../components/controls";
import { ErrorAlert } from "../components/query_result";

export function DeleteSection({ workflowId }: { workflowId: string }) {
  const [confirmation, setConfirmation] = useState("");
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const deletion = useMutation({
    mutationFn: (force: boolean) =>
      send("DELETE", withQuery(apiPath("workflows", workflowId), { force: force ? "true" : undefined })),
    onSuccess: async () => {
      await navigate({ to: "/workflows" });
      queryClient.removeQueries({ queryKey: ["workflow", workflowId] });
    },
  });
  const hasActiveJobs = deletion.error instanceof ApiError && deletion.error.status === 409;
  return (
    <details className="rounded-lg border border-line bg-surface">
      <summary className="px-4 py-2 font-medium">Delete</summary>
      <div className="space-y-3 border-t border-line px-4 py-3">
        <p className="text-muted">
          The workflow is hidden and rejects new jobs. Versions and jobs are kept; deploying it again restores it.
        </p>
        <Field
          label={`Type ${workflowId} to confirm`}
          className="w-full"
          autoComplete="off"
          value={confirmation}
          onChange={(event) => setConfirmation(event.target.value)}
        />
        {deletion.error && <ErrorAlert error={deletion.error} title="Delete failed" />}
        <div className="flex flex-wrap gap-2">
          <Button
            variant="danger"
            disabled={confirmation !== workflowId || deletion.isPending}
            onClick={() => deletion.mutate(false)}
          >
            Delete
          </Button>
          {hasActiveJobs && (
            <Button variant="danger" disabled={confirmation !== workflowId} onClick={() => deletion.mutate(true)}>
              Delete with active jobs
            </Button>
          )}
        </div>
      </div>
    </details>
  );
}
