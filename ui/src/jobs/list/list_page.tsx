// The list of jobs, newest first, with search, filters and bulk actions.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { workflowsQuery } from "../../api/queries";
import type { Job } from "../../api/types";
import { Button, EmptyState, LoadMore, PageHeader, Panel, Select } from "../../components/controls";
import { ErrorAlert, QueryResult } from "../../components/query_result";
import { SearchField } from "../../components/search_field";
import { statusText } from "../../components/status";
import { usePageTitle } from "../../lib/page_title";
import { usePagedQuery } from "../../lib/use_paged_query";
import { BulkBar } from "./bulk_bar";
import { FeaturedJobPanel } from "./featured_job_panel";
import { hasFilters, isValidSearch, JOB_STATUSES, type JobFilters, parseFilters, SEARCH_MAX, toQuery } from "./filters";
import { JobsTable } from "./jobs_table";
import { RunWorkflowDialog, RunWorkflowList } from "./run_workflow_list";

const PAGE_SIZE = 50;

const route = getRouteApi("/");

export function ListPage() {
  usePageTitle("Jobs");
  const filters = route.useSearch();
  const [isDialogOpen, setDialogOpen] = useState(false);
  const isValid = isValidSearch(filters);
  // Always live, because new jobs may start at any time.
  const jobs = usePagedQuery<Job>(["jobs"], { ...toQuery(filters), limit: PAGE_SIZE }, () => true, isValid);
  const visible = isValid ? jobs.data : [];
  const isEmpty = visible?.length === 0 && !hasFilters(filters) && !jobs.isPlaceholderData;
  return (
    <>
      <PageHeader
        title="Jobs"
        actions={
          <Button variant="primary" onClick={() => setDialogOpen(true)}>
            Run workflow
          </Button>
        }
      />
      {isEmpty ? (
        <FirstRunPanel />
      ) : (
        <>
          {visible && !hasFilters(filters) && <FeaturedJobPanel jobs={visible} />}
          <Filters filters={filters} />
          {jobs.isRefetchError && <ErrorAlert error={jobs.error} title="Refresh failed" />}
          <QueryResult query={{ ...jobs, data: visible }}>
            {(loaded) => (
              <div aria-busy={jobs.isPlaceholderData} className={jobs.isPlaceholderData ? "opacity-60" : ""}>
                <SelectableJobs key={JSON.stringify(filters)} jobs={loaded} />
              </div>
            )}
          </QueryResult>
          {jobs.hasNextPage && <LoadMore onClick={() => void jobs.fetchNextPage()} isBusy={jobs.isFetchingNextPage} />}
        </>
      )}
      {isDialogOpen && <RunWorkflowDialog onClose={() => setDialogOpen(false)} />}
    </>
  );
}

function SelectableJobs({ jobs }: { jobs: Job[] }) {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const onSelect = (jobId: string, isSelected: boolean) => {
    const next = new Set(selected);
    if (isSelected) {
      next.add(jobId);
    } else {
      next.delete(jobId);
    }
    setSelected(next);
  };
  const onSelectAll = (isSelected: boolean) => setSelected(new Set(isSelected ? jobs.map((job) => job.job_id) : []));
  return (
    <>
      <BulkBar selected={jobs.filter((job) => selected.has(job.job_id))} onClear={() => setSelected(new Set())} />
      <Panel>
        {jobs.length === 0 ? (
          <EmptyState title="No matching jobs">
            <Link to="/" className="text-accent hover:underline">
              Show all jobs
            </Link>
          </EmptyState>
        ) : (
          <JobsTable jobs={jobs} selection={{ selected, onSelect, onSelectAll }} />
        )}
      </Panel>
    </>
  );
}

function Filters({ filters }: { filters: JobFilters }) {
  const navigate = route.useNavigate();
  const workflows = useQuery(workflowsQuery({ limit: 1000 }));
  const set = (change: Record<string, string>) =>
    navigate({ search: (before) => parseFilters({ ...before, ...change }), replace: true });
  const ids = workflows.data?.items.map((workflow) => workflow.workflow_id) ?? [];
  const options = filters.workflow && !ids.includes(filters.workflow) ? [filters.workflow, ...ids] : ids;
  return (
    <search className="mb-3 flex flex-wrap items-center gap-2">
      <SearchField
        label="Search jobs"
        placeholder="Job id, workflow or key"
        maxLength={SEARCH_MAX}
        value={filters.search ?? ""}
        onSearch={(search) => void set({ search })}
      />
      <Select
        label="Status"
        hideLabel
        value={filters.status ?? ""}
        options={[["", "Any status"], ...JOB_STATUSES.map((status) => [status, statusText(status)] as const)]}
        onChange={(event) => void set({ status: event.target.value })}
      />
      <Select
        label="Workflow"
        hideLabel
        className="max-w-56"
        value={filters.workflow ?? ""}
        options={[["", "Any workflow"], ...options.map((id) => [id, id] as const)]}
        onChange={(event) => void set({ workflow: event.target.value })}
      />
      {hasFilters(filters) && (
        <Button variant="ghost" onClick={() => void navigate({ search: {} })}>
          Clear filters
        </Button>
      )}
    </search>
  );
}

function FirstRunPanel() {
  return (
    <Panel className="mx-auto max-w-3xl" title="Run your first workflow">
      <div className="px-5 py-3">
        <p className="mb-2 text-muted">No jobs yet. Run a workflow and follow its progress.</p>
        <RunWorkflowList />
      </div>
    </Panel>
  );
}
