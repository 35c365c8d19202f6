// The page of one job: its graph, timeline, events, logs and result, now or at any moment before.

import { getRouteApi } from "@tanstack/react-router";
import { useCallback } from "react";
import type { Job } from "../../api/types";
import { PageHead, Tabs } from "../../components/controls";
import { Loaded, ProblemBox } from "../../components/query_result";
import { GraphView } from "../graph/graph_view";
import { hasEnded } from "../job_status";
import { NodePanel } from "../node/node_panel";
import { JOB_TABS, type JobSearch, type JobTab } from "../search";
import { EventsView } from "./events_view";
import { JobHead } from "./job_header";
import type { Shown } from "./job_view_props";
import type { LiveJob } from "./live_job";
import { LogsView } from "./logs_view";
import { ResultView } from "./result_view";
import { useMoment } from "./time_position";
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
  return <OneJob key={jobId} jobId={jobId} />;
}

function OneJob({ jobId }: { jobId: string }) {
  const { job, workflow, live, goOn } = useJob(jobId);
  if (job.isError && !job.data) {
    return (
      <>
        <PageHead title="Job" about={<code className="font-mono text-xs">{jobId}</code>} />
        <ProblemBox error={job.error} title="It can not be shown" />
      </>
    );
  }
  return (
    <Loaded query={job}>
      {(found) => (
        <div className="flex flex-col lg:h-[calc(100dvh-5.5rem)] lg:min-h-[40rem]">
          <JobHead
            job={found}
            latest={live?.history.latest ?? null}
            definition={workflow.data?.definition}
            isLost={live?.isLost ?? false}
            goOn={goOn}
          />
          {live?.problem ? <ProblemBox error={live.problem} title="Its events could not be read" /> : null}
          <Loaded query={{ data: live ?? undefined, error: workflow.error, isPending: workflow.isPending }}>
            {(live) => <Views job={found} live={live} goOn={goOn} />}
          </Loaded>
        </div>
      )}
    </Loaded>
  );
}

function Views({ job, live, goOn }: { job: Job; live: LiveJob; goOn(): void }) {
  const version = useVersion(live);
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = useCallback(
    (changed: JobSearch, replace = false) =>
      void navigate({ search: (before) => ({ ...before, ...changed }), replace, resetScroll: false }),
    [navigate],
  );
  const toAddress = useCallback((at: number | undefined) => change({ at }, true), [change]);
  const [at, setAt] = useMoment(search.at, toAddress);
  const select = useCallback((node: string | null) => change({ node: node ?? undefined }), [change]);
  const close = useCallback(() => change({ node: undefined }), [change]);
  const tab = search.tab ?? "graph";
  const node = search.node ?? null;
  const state = at === undefined ? live.history.latest : live.history.stateAt(at);
  const shown: Shown = { live, state, at, version };
  return (
    <>
      <Tabs
        label="Views of the job"
        tabs={JOB_TABS.map((key) => ({
          key,
          name: TAB_NAMES[key],
          current: key === tab,
          onPick: () => change({ tab: key === "graph" ? undefined : key }),
        }))}
      />
      <div className="my-2">
        <TimeTravel {...shown} onTravel={setAt} />
      </div>
      <div
        className={`grid gap-3 lg:min-h-0 lg:flex-1 lg:grid-rows-[minmax(0,1fr)] ${node === null ? "" : "lg:grid-cols-[minmax(0,1fr)_minmax(22rem,28rem)]"}`}
      >
        <div
          role="tabpanel"
          aria-label={TAB_NAMES[tab]}
          className={tab === "result" ? "min-w-0 overflow-y-auto" : TALL}
        >
          <View tab={tab} job={job} shown={shown} node={node} onSelect={select} onTravel={setAt} />
        </div>
        {node !== null && (
          <div className="min-w-0 lg:overflow-y-auto">
            <NodePanel
              {...shown}
              key={node}
              nodeId={node}
              round={roundOf(live)}
              onSelect={select}
              onClose={close}
              goOn={goOn}
            />
          </div>
        )}
      </div>
    </>
  );
}

// Beside the panel as tall as the window lets it be; on a phone, most of the screen.
const TALL = "h-[70dvh] min-w-0 lg:h-full";

interface ViewProps {
  tab: JobTab;
  job: Job;
  shown: Shown;
  node: string | null;
  onSelect(nodeId: string | null): void;
  onTravel(at: number | undefined): void;
}

function View({ tab, job, shown, node, onSelect, onTravel }: ViewProps) {
  const { live } = shown;
  // The job is known to have ended before its events are read.
  const isLive = !live.hasEnded && !hasEnded(job.status);
  switch (tab) {
    case "graph":
      return (
        <GraphView
          graph={live.graph}
          state={shown.state}
          selected={node}
          onSelect={onSelect}
          at={shown.at === undefined ? null : shown.state.at}
          label={`Graph of ${job.workflow_id}`}
          className="h-full rounded-lg border border-line"
        />
      );
    case "timeline":
      return <Timeline {...shown} selected={node} onSelect={onSelect} />;
    case "events":
      return <EventsView {...shown} isLive={isLive} node={node} onTravel={onTravel} />;
    case "logs":
      return <LogsView jobId={job.job_id} node={node} isLive={isLive} round={roundOf(live)} />;
    case "result":
      return <ResultView job={job} />;
  }
}

/** Which round of the job this is: an operator's retry begins another. */
function roundOf(live: LiveJob): number {
  return live.hasEnded ? 0 : 1;
}
