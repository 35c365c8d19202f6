// Types of the workflow pages.

import type { JobStatus, Schemas, Workflow } from "../api/types";

export type RecentJob = Required<Schemas["RecentJobView"]> & { status: JobStatus };
export type ListedWorkflow = Workflow & { recent: RecentJob[] };
export type NodeStatistics = Required<Schemas["NodeStatisticsView"]>;
export type Statistics = Required<Schemas["WorkflowStatisticsView"]>;
export type AliasTarget = Required<Schemas["WeightedVersion"]>;
