// Makes a delivery once more, by a job of its own.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { at, send } from "../api/client";
import { Button, textLink } from "../components/controls";
import { Dialog } from "../components/dialog";
import { ProblemBox } from "../components/query_result";

export function Redeliver({ deliveryId }: { deliveryId: string }) {
  const queries = useQueryClient();
  const again = useMutation({
    mutationFn: () => send<{ job_id: string }>("POST", at("deliveries", deliveryId, "redeliver")),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["deliveries"] }),
  });
  if (again.data) {
    return (
      <span role="status" className="whitespace-nowrap">
        Sent again by{" "}
        <Link to="/jobs/$jobId" params={{ jobId: again.data.job_id }} className={textLink}>
          a job
        </Link>
      </span>
    );
  }
  return (
    <>
      <Button disabled={again.isPending} aria-label={`Redeliver ${deliveryId}`} onClick={() => again.mutate()}>
        Redeliver
      </Button>
      {again.error && (
        <Dialog title="It was not sent again" onClose={() => again.reset()}>
          <ProblemBox error={again.error} />
        </Dialog>
      )}
    </>
  );
}
