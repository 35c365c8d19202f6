// Takes a workflow off the lists, folded away so that nobody does it in passing.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { address, at, Problem, send } from "../api/client";
import { Button, Field } from "../components/controls";
import { ProblemBox } from "../components/query_result";

export function DeleteFold({ workflowId }: { workflowId: string }) {
  const [typed, setTyped] = useState("");
  const navigate = useNavigate();
  const queries = useQueryClient();
  const deletion = useMutation({
    mutationFn: (force: boolean) =>
      send("DELETE", address(at("workflows", workflowId), { force: force ? "true" : undefined })),
    onSuccess: async () => {
      await navigate({ to: "/workflows" });
      queries.removeQueries({ queryKey: ["workflow", workflowId] });
    },
  });
  const isBusy = deletion.error instanceof Problem && deletion.error.status === 409;
  return (
    <details className="rounded-lg border border-line bg-surface">
      <summary className="px-4 py-2 font-medium">Delete</summary>
      <div className="space-y-3 border-t border-line px-4 py-3">
        <p className="text-muted">
          It leaves the lists and refuses new jobs. Its versions and the history of its jobs stay; deploying it again
          brings it back.
        </p>
        <Field
          label={`Type ${workflowId} to confirm`}
          className="w-full"
          autoComplete="off"
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
        />
        {deletion.error && <ProblemBox error={deletion.error} title="It was not deleted" />}
        <div className="flex flex-wrap gap-2">
          <Button
            look="danger"
            disabled={typed !== workflowId || deletion.isPending}
            onClick={() => deletion.mutate(false)}
          >
            Delete
          </Button>
          {isBusy && (
            <Button look="danger" disabled={typed !== workflowId} onClick={() => deletion.mutate(true)}>
              Delete although jobs run
            </Button>
          )}
        </div>
      </div>
    </details>
  );
}
