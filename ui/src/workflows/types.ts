// Types of the workflow pages.

import type { JobStatus, Schemas, Workflow } from "../api/types";

export type RecentJob = Required<Schemas["RecentJob"]> & { status: JobStatus };
export type ListedWorkflow = Workflow & { recent: RecentJob[] };
export type NodeStatistics = Required<Schemas["NodeStatistics"]>;
export type Statistics = Required<Schemas["WorkflowStatistics"]>;
export type AliasTarget = Required<Schemas["AliasTarget"]>;
