// What is drawn of a graph: its nodes, and many alike ones as one group until it is opened.

import type { Graph, GraphNode } from "./graph";

const GROUP_MIN = 12;
const GRAPH_MIN = 60;

export interface Unit {
  kind: "node" | "group";
  /** The node's id, or that of the group. */
  id: string;
  /** Numbers of nodes: one, or all of a group. */
  members: number[];
  /** Of a group: its members are shown too, by the units from here on; -1 while it is closed. */
  inside: number;
  /** Of a member of an opened group: the unit of that group. Else -1. */
  within: number;
  parents: number[];
  children: number[];
}

export interface Drawn {
  units: Unit[];
  /** So many units stand for the whole graph; the members of opened groups come after them. */
  outer: number;
  /** By the node's number, the unit that shows it. */
  unitOf: Int32Array;
}

/** Nodes with the same parents, the same children and the same handler. */
export interface Group {
  id: string;
  members: number[];
}

export function groupsOf(graph: Graph): Group[] {
  if (graph.nodes.length <= GRAPH_MIN) {
    return [];
  }
  const alike = new Map<number, number[][]>();
  graph.nodes.forEach((node, number) => {
    const key = hashOf(node);
    const buckets = alike.get(key);
    const bucket = buckets?.find((members) => areAlike(graph.nodes[members[0] as number] as GraphNode, node));
    if (bucket) {
      bucket.push(number);
    } else if (buckets) {
      buckets.push([number]);
    } else {
      alike.set(key, [[number]]);
    }
  });
  const found: number[][] = [];
  for (const buckets of alike.values()) {
    found.push(...buckets.filter((members) => members.length >= GROUP_MIN));
  }
  return found.map((members) => ({ id: `group of ${graph.nodes[members[0] as number]?.id}`, members }));
}

/** The graph as it is drawn while these groups are open. */
export function drawnOf(graph: Graph, groups: Group[], opened: ReadonlySet<string>): Drawn {
  const groupOf = new Map<number, Group>();
  for (const group of groups) {
    for (const member of group.members) {
      groupOf.set(member, group);
    }
  }
  const units: Unit[] = [];
  const unitOf = new Int32Array(graph.nodes.length);
  graph.nodes.forEach((node, number) => {
    const group = groupOf.get(number);
    const first = group?.members[0] ?? number;
    if (first !== number) {
      unitOf[number] = unitOf[first] as number;
      return;
    }
    unitOf[number] = units.length;
    units.push(group ? unit("group", group.id, group.members) : unit("node", node.id, [number]));
  });
  join(graph, units, unitOf);
  const outer = units.length;
  for (let number = 0; number < outer; number++) {
    if (opened.has((units[number] as Unit).id)) {
      open(graph, units, unitOf, number);
    }
  }
  return { units, outer, unitOf };
}

function unit(kind: Unit["kind"], id: string, members: number[]): Unit {
  return { kind, id, members, inside: -1, within: -1, parents: [], children: [] };
}

/** The edges between units; all members of a group have the same ones. */
function join(graph: Graph, units: Unit[], unitOf: Int32Array): void {
  units.forEach((unit, number) => {
    for (const parent of graph.nodes[unit.members[0] as number]?.parents ?? []) {
      const above = units[unitOf[parent] as number] as Unit;
      // Of a group above, all members lead here: it is a parent once.
      if (above.children.at(-1) !== number) {
        above.children.push(number);
        unit.parents.push(unitOf[parent] as number);
      }
    }
  });
}

function open(graph: Graph, units: Unit[], unitOf: Int32Array, number: number): void {
  const group = units[number] as Unit;
  if (group.kind !== "group") {
    return;
  }
  group.inside = units.length;
  for (const member of group.members) {
    unitOf[member] = units.length;
    const { parents, children } = group;
    units.push({ ...unit("node", graph.nodes[member]?.id ?? "", [member]), within: number, parents, children });
  }
}

function areAlike(one: GraphNode, other: GraphNode): boolean {
  return (
    one.handler === other.handler &&
    one.isLoop === other.isLoop &&
    sameNumbers(one.parents, other.parents) &&
    sameNumbers(one.children, other.children)
  );
}

function sameNumbers(one: number[], other: number[]): boolean {
  return one.length === other.length && one.every((number, place) => number === other[place]);
}

function hashOf(node: GraphNode): number {
  let hash = node.parents.length * 31 + node.children.length;
  for (const numbers of [node.parents, node.children]) {
    for (const number of numbers) {
      hash = (Math.imul(hash, 16_777_619) ^ (number + 1)) | 0;
    }
    hash = Math.imul(hash, 31) | 0;
  }
  return hash;
}
