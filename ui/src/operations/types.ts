// The shapes of what the server tells about its own work.

import type { Schemas } from "../api/types";

export type TaskHeld = Required<Schemas["WorkerTask"]>;
export type Worker = Required<Schemas["WorkerSeen"]>;
export type Shard = Required<Schemas["ShardSeen"]>;
export type Queue = Required<Schemas["QueueSeen"]>;
export type Bucket = Required<Schemas["ActivityBucket"]>;
export type Activity = Required<Schemas["Activity"]>;
