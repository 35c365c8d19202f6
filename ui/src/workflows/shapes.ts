// The shapes of what is told about workflows beyond their versions.

import type { JobStatus, Schemas, Workflow } from "../api/shapes";

export type RecentJob = Required<Schemas["RecentJobView"]> & { status: JobStatus };
export type ListedWorkflow = Workflow & { recent: RecentJob[] };
export type NodeStatistics = Required<Schemas["NodeStatisticsView"]>;
export type Statistics = Required<Schemas["WorkflowStatisticsView"]>;
export type AliasTarget = Required<Schemas["WeightedVersion"]>;
