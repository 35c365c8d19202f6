// The shapes of what is told about workflows beyond their versions.

import type { JobStatus, Workflow } from "../api/shapes";

export interface RecentJob {
  job_id: string;
  status: JobStatus;
  created_at: string;
  started_at: string | null;
  completed_at: string | null;
}

export type ListedWorkflow = Workflow & { recent: RecentJob[] };

export interface Spread {
  p50: number;
  p95: number;
  max: number;
}

export interface NodeStatistics {
  node_id: string;
  runs: number;
  failed: number;
  retried: number;
  duration_seconds: Spread | null;
  share_of_critical_path: number;
}

export interface Statistics {
  workflow_id: string;
  jobs: number;
  completed: number;
  failed: number;
  cancelled: number;
  duration_seconds: Spread | null;
  nodes: NodeStatistics[];
  critical_path: string[];
}

export interface AliasTarget {
  version: number;
  weight: number;
}
