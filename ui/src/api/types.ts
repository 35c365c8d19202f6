// Types of the API, based on the generated schema.

import type { EventType } from "./event_types";
import type { components } from "./schema";

export type Schemas = components["schemas"];

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

type With<T, R> = Omit<T, keyof R> & R;

export type Loop = Schemas["LoopView"];
export type Iteration = With<Schemas["IterationView"], { output: Json; error: NodeError | null; meta: Json }>;
export type Node = With<
  Required<Schemas["NodeView"]>,
  { output: Json; error: NodeError | null; meta: Json; loop: Required<Loop> | null }
>;
export type Job = With<
  Required<Schemas["JobView"]>,
  { status: JobStatus; input_data: Json; result_data: Json; error: NodeError | null; nodes: Node[] | null }
>;
export type Event = With<
  Required<Schemas["EventView"]>,
  { event_type: EventType; data: EventData; meta: Json; context: Json }
>;
export type Workflow = With<Required<Schemas["WorkflowView"]>, { definition: Definition }>;
export type Validation = Required<Schemas["ValidationView"]>;
export type Schedule = Required<Schemas["ScheduleView"]>;
export type Run = Required<Schemas["RunView"]>;
export type RunEvent = Schemas["RunEventView"];
export type Delivery = Required<Schemas["DeliveryView"]>;
export type Health = Required<Schemas["HealthView"]>;
export type Log = Schemas["LogView"];

export type JobStatus = "pending" | "running" | "completed" | "failed" | "cancelled";
export type NodeStatus =
  | "pending"
  | "ready"
  | "dispatched"
  | "running"
  | "waiting"
  | "completed"
  | "failed"
  | "skipped"
  | "cancelled";

/** An error of a job, node or iteration. Handlers may add fields. */
export interface NodeError {
  type?: string;
  message?: string;
  node_id?: string;
  hint?: string;
  status?: number;
  retryable?: boolean;
  traceback?: string;
  failure_class?: string;
  [more: string]: Json | undefined;
}

/** Data of an event. The fields depend on its type. */
export interface EventData {
  attempt_number?: number;
  next_attempt?: number;
  delay_seconds?: number;
  queue?: string;
  worker_id?: string;
  error?: NodeError;
  reason?: string;
  total_iterations?: number;
  [more: string]: Json | NodeError | undefined;
}

/** A parsed workflow: a list of nodes with their dependencies. */
export interface Definition {
  workflow_id: string;
  description?: string;
  /** The alias of submits that name no version. */
  default_alias?: string;
  input?: { [key: string]: Json };
  nodes: NodeDefinition[];
  [more: string]: Json | NodeDefinition[] | undefined;
}

export interface NodeDefinition {
  id: string;
  handler: string;
  dependencies?: string[];
  loop?: { [key: string]: Json };
  params?: Json;
  description?: string;
  [more: string]: Json | undefined;
}
