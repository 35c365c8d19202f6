// All jobs, newest first, as they go on: found, filtered, and many of them cancelled or retried at once.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { workflowsQuery } from "../../api/queries";
import type { Job } from "../../api/types";
import { Button, Choice, Empty, More, PageHead, Panel } from "../../components/controls";
import { Loaded, ProblemBox } from "../../components/query_result";
import { SearchField } from "../../components/search_field";
import { usePaged } from "../../lib/use_paged_query";
import { BulkBar } from "./bulk_bar";
import { WatchedJob } from "./featured_job_panel";
import { canFind, filtersOf, hasFilters, JOB_STATUSES, type JobFilters, queryOf, SEARCH_MAX } from "./filters";
import { JobsTable } from "./jobs_table";
import { RunDialog, RunList } from "./run_workflow_list";

const PAGE_SIZE = 50;

const route = getRouteApi("/");

export function ListPage() {
  const filters = route.useSearch();
  const [isChoosing, setChoosing] = useState(false);
  const isFindable = canFind(filters);
  // A new job may begin at any moment, and is what people look for here.
  const jobs = usePaged<Job>(["jobs"], { ...queryOf(filters), limit: PAGE_SIZE }, () => true, isFindable);
  const shown = isFindable ? jobs.data : [];
  const isNew = shown?.length === 0 && !hasFilters(filters) && !jobs.isPlaceholderData;
  return (
    <>
      <PageHead
        title="Jobs"
        actions={
          <Button look="main" onClick={() => setChoosing(true)}>
            Run a workflow
          </Button>
        }
      />
      {isNew ? (
        <Newcomer />
      ) : (
        <>
          {shown && !hasFilters(filters) && <WatchedJob jobs={shown} />}
          <Filters filters={filters} />
          {jobs.isRefetchError && <ProblemBox error={jobs.error} title="The list may be out of date" />}
          <Loaded query={{ ...jobs, data: shown }}>
            {(some) => (
              <div aria-busy={jobs.isPlaceholderData} className={jobs.isPlaceholderData ? "opacity-60" : ""}>
                <Listed key={JSON.stringify(filters)} jobs={some} />
              </div>
            )}
          </Loaded>
          {jobs.hasNextPage && <More onClick={() => void jobs.fetchNextPage()} busy={jobs.isFetchingNextPage} />}
        </>
      )}
      {isChoosing && <RunDialog onClose={() => setChoosing(false)} />}
    </>
  );
}

function Listed({ jobs }: { jobs: Job[] }) {
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const onPick = (jobId: string, isPicked: boolean) => {
    const next = new Set(picked);
    if (isPicked) {
      next.add(jobId);
    } else {
      next.delete(jobId);
    }
    setPicked(next);
  };
  const onPickAll = (isPicked: boolean) => setPicked(new Set(isPicked ? jobs.map((job) => job.job_id) : []));
  return (
    <>
      <BulkBar picked={jobs.filter((job) => picked.has(job.job_id))} onClear={() => setPicked(new Set())} />
      <Panel>
        {jobs.length === 0 ? (
          <Empty title="No job fits these filters">
            <Link to="/" className="text-accent hover:underline">
              Show all jobs
            </Link>
          </Empty>
        ) : (
          <JobsTable jobs={jobs} picking={{ picked, onPick, onPickAll }} />
        )}
      </Panel>
    </>
  );
}

function Filters({ filters }: { filters: JobFilters }) {
  const navigate = route.useNavigate();
  const workflows = useQuery(workflowsQuery({ limit: 1000 }));
  const set = (change: Record<string, string>) =>
    navigate({ search: (before) => filtersOf({ ...before, ...change }), replace: true });
  const ids = workflows.data?.items.map((workflow) => workflow.workflow_id) ?? [];
  const choices = filters.workflow && !ids.includes(filters.workflow) ? [filters.workflow, ...ids] : ids;
  return (
    <search className="mb-3 flex flex-wrap items-center gap-2">
      <SearchField
        label="Search jobs"
        placeholder="Job id, workflow or key"
        maxLength={SEARCH_MAX}
        value={filters.search ?? ""}
        onSearch={(search) => void set({ search })}
      />
      <Choice
        label="Status"
        hidden
        value={filters.status ?? ""}
        options={[["", "Any status"], ...JOB_STATUSES.map((status) => [status, status] as const)]}
        onChange={(event) => void set({ status: event.target.value })}
      />
      <Choice
        label="Workflow"
        hidden
        className="max-w-56"
        value={filters.workflow ?? ""}
        options={[["", "Any workflow"], ...choices.map((id) => [id, id] as const)]}
        onChange={(event) => void set({ workflow: event.target.value })}
      />
      {hasFilters(filters) && (
        <Button look="quiet" onClick={() => void navigate({ search: {} })}>
          Clear
        </Button>
      )}
    </search>
  );
}

function Newcomer() {
  return (
    <Panel className="mx-auto max-w-3xl" title="Run your first workflow">
      <div className="px-5 py-3">
        <p className="mb-2 text-muted">Nothing has run here yet. Run one of these and watch it, step by step.</p>
        <RunList />
      </div>
    </Panel>
  );
}
