// Two jobs of a workflow side by side.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { jobQuery } from "../../api/queries";
import { Button, EmptyState, PageHeader } from "../../components/controls";
import { QueryResult } from "../../components/query_result";
import { usePageTitle } from "../../lib/page_title";
import { isInternal } from "../internal_workflow";
import { ComparisonView } from "./comparison_view";
import { JobPicker } from "./job_picker";

const route = getRouteApi("/compare");

export function ComparePage() {
  usePageTitle("Compare", "Jobs");
  const { left, right } = route.useSearch();
  const navigate = route.useNavigate();
  const [isPicking, setPicking] = useState(false);
  if (!left) {
    return (
      <>
        <PageHeader title="Compare jobs" />
        <EmptyState title="No job selected">
          Open a{" "}
          <Link to="/" className="text-accent underline">
            job
          </Link>{" "}
          and click Compare.
        </EmptyState>
      </>
    );
  }
  const choose = (other: string) => {
    setPicking(false);
    void navigate({ search: { left, right: other } });
  };
  return (
    <>
      <PageHeader
        title="Compare jobs"
        actions={
          right && (
            <>
              <Button onClick={() => void navigate({ search: { left: right, right: left }, replace: true })}>
                Swap
              </Button>
              <Button onClick={() => setPicking(!isPicking)}>{isPicking ? "Keep job" : "Change job"}</Button>
            </>
          )
        }
      />
      {(isPicking || !right) && <JobPickerFor jobId={left} onChoose={choose} />}
      {right && !isPicking && <ComparisonView key={`${left} ${right}`} left={left} right={right} />}
    </>
  );
}

function JobPickerFor({ jobId, onChoose }: { jobId: string; onChoose(jobId: string): void }) {
  const job = useQuery(jobQuery(jobId));
  return (
    <QueryResult query={job}>
      {(loaded) =>
        isInternal(loaded.workflow_id) ? (
          <EmptyState title="Jobs that deliver webhooks cannot be compared" />
        ) : (
          <JobPicker job={loaded} onChoose={onChoose} />
        )
      }
    </QueryResult>
  );
}
