// Repeats a delivery with a new job.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { apiPath, send } from "../api/client";
import { Button, linkClass } from "../components/controls";
import { Dialog } from "../components/dialog";
import { ErrorAlert } from "../components/query_result";

export function RedeliverButton({ deliveryId }: { deliveryId: string }) {
  const queryClient = useQueryClient();
  const redeliver = useMutation({
    mutationFn: () => send<{ job_id: string }>("POST", apiPath("deliveries", deliveryId, "redeliver")),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ["deliveries"] }),
  });
  if (redeliver.data) {
    return (
      <span role="status" className="whitespace-nowrap">
        Sent by{" "}
        <Link to="/jobs/$jobId" params={{ jobId: redeliver.data.job_id }} className={linkClass}>
          job
        </Link>
      </span>
    );
  }
  return (
    <>
      <Button disabled={redeliver.isPending} aria-label={`Redeliver ${deliveryId}`} onClick={() => redeliver.mutate()}>
        Redeliver
      </Button>
      {redeliver.error && (
        <Dialog title="Redelivery failed" onClose={() => redeliver.reset()}>
          <ErrorAlert error={redeliver.error} />
        </Dialog>
      )}
    </>
  );
}
