// Types of the operations page.

import type { Schemas } from "../api/types";

export type WorkerTask = Required<Schemas["WorkerTask"]>;
export type Worker = Required<Schemas["WorkerSeen"]>;
export type Shard = Required<Schemas["ShardSeen"]>;
export type Queue = Required<Schemas["QueueSeen"]>;
export type Bucket = Required<Schemas["ActivityBucket"]>;
export type Activity = Required<Schemas["Activity"]>;
