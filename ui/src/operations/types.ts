// Types of the operations page.

import type { Schemas } from "../api/types";

export type WorkerTask = Required<Schemas["WorkerTaskView"]>;
export type Worker = Required<Schemas["WorkerView"]>;
export type Shard = Required<Schemas["ShardView"]>;
export type Queue = Required<Schemas["QueueView"]>;
export type Bucket = Required<Schemas["ActivityBucketView"]>;
export type Activity = Required<Schemas["ActivityView"]>;
