// The page of one job: graph, timeline, events, logs and result, at any point in time.

import { getRouteApi, Link } from "@tanstack/react-router";
import { useCallback } from "react";
import type { Job } from "../../api/types";
import { linkClass, PageHeader, Tabs } from "../../components/controls";
import { isNotFound, NotFound } from "../../components/not_found";
import { ErrorAlert, QueryResult } from "../../components/query_result";
import { usePageTitle } from "../../lib/page_title";
import { GraphView } from "../graph/graph_view";
import { isFinal } from "../job_status";
import { shortId } from "../links";
import { NodePanel } from "../node/node_panel";
import { JOB_TABS, type JobSearch, type JobTab } from "../search";
import { EventsView } from "./events_view";
import { JobHeader } from "./job_header";
import type { JobViewProps } from "./job_view_props";
import type { LiveJob } from "./live_job";
import { LogsView } from "./logs_view";
import { ResultView } from "./result_view";
import { useTimePosition } from "./time_position";
import { TimeTravel } from "./time_travel";
import { Timeline } from "./timeline";
import { useJob, useVersion } from "./use_job";

const TAB_NAMES: Record<JobTab, string> = {
  graph: "Graph",
  timeline: "Timeline",
  events: "Events",
  logs: "Logs",
  result: "Result",
};

const route = getRouteApi("/jobs/$jobId");

export function JobPage() {
  const { jobId } = route.useParams();
  return <LoadedJob key={jobId} jobId={jobId} />;
}

function LoadedJob({ jobId }: { jobId: string }) {
  const { job, definition, definitionError, live, onResumed } = useJob(jobId);
  usePageTitle(job.data && `${job.data.workflow_id} ${shortId(jobId)}`, "Jobs");
  if (!job.data && isNotFound(job.error)) {
    return (
      <NotFound name="Job">
        <Link to="/" className={linkClass}>
          Show all jobs
        </Link>
      </NotFound>
    );
  }
  if (job.isError && !job.data) {
    return (
      <>
        <PageHeader title="Job" subtitle={<code className="font-mono text-xs">{jobId}</code>} />
        <ErrorAlert error={job.error} title="Loading failed" />
      </>
    );
  }
  return (
    <QueryResult query={job}>
      {(loaded) => (
        <div className="flex flex-col lg:h-[calc(100dvh-5.5rem)] lg:min-h-[40rem]">
          <JobHeader
            job={loaded}
            latest={live?.history.latest ?? null}
            definition={definition}
            isConnectionLost={live?.isConnectionLost ?? false}
            onResumed={onResumed}
          />
          {live?.error ? <ErrorAlert error={live.error} title="Loading events failed" /> : null}
          <QueryResult query={{ data: live ?? undefined, error: definitionError, isPending: live === null }}>
            {(live) => <JobViews job={loaded} live={live} onResumed={onResumed} />}
          </QueryResult>
        </div>
      )}
    </QueryResult>
  );
}

function JobViews({ job, live, onResumed }: { job: Job; live: LiveJob; onResumed(): void }) {
  const version = useVersion(live);
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = useCallback(
    (changed: JobSearch, replace = false) =>
      void navigate({ search: (before) => ({ ...before, ...changed }), replace, resetScroll: false }),
    [navigate],
  );
  const setUrlPosition = useCallback((at: number | undefined) => change({ at }, true), [change]);
  const [at, setAt] = useTimePosition(search.at, setUrlPosition);
  const select = useCallback((node: string | null) => change({ node: node ?? undefined }), [change]);
  const close = useCallback(() => change({ node: undefined }), [change]);
  const tab = search.tab ?? "graph";
  const node = search.node ?? null;
  const state = at === undefined ? live.history.latest : live.history.stateAt(at);
  const view: JobViewProps = { live, state, at, version };
  return (
    <>
      <Tabs
        label="Job views"
        tabs={JOB_TABS.map((key) => ({
          key,
          name: TAB_NAMES[key],
          isCurrent: key === tab,
          onSelect: () => change({ tab: key === "graph" ? undefined : key }),
        }))}
      />
      <div className="my-2">
        <TimeTravel {...view} onTravel={setAt} />
      </div>
      <div
        className={`grid gap-3 lg:min-h-0 lg:flex-1 lg:grid-rows-[minmax(0,1fr)] ${node === null ? "" : "lg:grid-cols-[minmax(0,1fr)_minmax(22rem,28rem)]"}`}
      >
        <div
          role="tabpanel"
          aria-label={TAB_NAMES[tab]}
          className={tab === "result" ? "min-w-0 overflow-y-auto" : TALL_CLASS}
        >
          <JobView tab={tab} job={job} view={view} node={node} onSelect={select} onTravel={setAt} />
        </div>
        {node !== null && live.hasState && (
          <div className="min-w-0 lg:overflow-y-auto">
            <NodePanel {...view} key={node} nodeId={node} onSelect={select} onClose={close} onResumed={onResumed} />
          </div>
        )}
      </div>
    </>
  );
}

// The height of the window beside the panel; most of the screen on a phone.
const TALL_CLASS = "h-[70dvh] min-w-0 lg:h-full";

interface TabProps {
  tab: JobTab;
  job: Job;
  view: JobViewProps;
  node: string | null;
  onSelect(nodeId: string | null): void;
  onTravel(at: number | undefined): void;
}

function JobView({ tab, job, view, node, onSelect, onTravel }: TabProps) {
  const { live } = view;
  // The job may be known to have ended before its events are loaded.
  const isLive = !live.isFinal && !isFinal(job.status);
  switch (tab) {
    case "graph":
      return (
        <GraphView
          graph={live.graph}
          state={live.hasState ? view.state : null}
          selected={node}
          onSelect={onSelect}
          at={view.at === undefined ? null : view.state.at}
          label={`Graph of ${job.workflow_id}`}
          className="h-full rounded-lg border border-line"
        />
      );
    case "timeline":
      return live.hasState ? (
        <Timeline {...view} selected={node} onSelect={onSelect} />
      ) : (
        <p className="p-6 text-muted">Loading…</p>
      );
    case "events":
      return <EventsView {...view} isLive={isLive} node={node} onTravel={onTravel} />;
    case "logs":
      return <LogsView jobId={job.job_id} node={node} isLive={isLive} isJobFinal={live.isFinal} />;
    case "result":
      return <ResultView job={job} />;
  }
}
