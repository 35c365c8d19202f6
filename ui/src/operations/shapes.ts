// The shapes of what the server tells about its own work.

import type { Schemas } from "../api/shapes";

export type TaskHeld = Required<Schemas["WorkerTaskView"]>;
export type Worker = Required<Schemas["WorkerView"]>;
export type Shard = Required<Schemas["ShardView"]>;
export type Queue = Required<Schemas["QueueView"]>;
export type Bucket = Required<Schemas["ActivityBucketView"]>;
export type Activity = Required<Schemas["ActivityView"]>;
