// The shapes of what the server tells about its own work.

export interface TaskHeld {
  job_id: string;
  node_id: string;
  /** null outside loops. */
  index: number | null;
  attempt: number;
  since: string;
}

export interface Worker {
  worker_id: string;
  queues: string[];
  running: number;
  seen_at: string;
  alive: boolean;
  tasks: TaskHeld[];
}

export interface Shard {
  shard: number;
  owner: string | null;
  epoch: number | null;
  expired: boolean;
  /** null where nobody else could take it over. */
  expires_at: string | null;
}

export interface HealthTold {
  status: "ok" | "degraded";
  version: string;
  shards: Shard[];
  workers: Worker[];
}

export interface Queue {
  queue: string;
  depth: number;
  running: number;
  oldest_seconds: number | null;
}

export interface Bucket {
  at: string;
  submitted: number;
  completed: number;
  failed: number;
  cancelled: number;
  p50_seconds: number | null;
  p95_seconds: number | null;
}

export interface Activity {
  bucket_seconds: number;
  buckets: Bucket[];
  unfinished: number;
  truncated?: boolean;
}
