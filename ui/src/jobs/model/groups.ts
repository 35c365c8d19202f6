// Combines equivalent nodes of a large graph into groups. A unit is what is drawn: a node or a group.

import type { Graph, GraphNode } from "./graph";

const GROUP_NODES_MIN = 12;
const GRAPH_NODES_MIN = 60;

export interface Unit {
  kind: "node" | "group";
  /** The id of the node or group. */
  id: string;
  /** The numbers of its nodes. */
  members: number[];
  /** For an expanded group, the first of the units of its members; otherwise -1. */
  firstMember: number;
  /** For a member of an expanded group, the unit of the group; otherwise -1. */
  group: number;
  parents: number[];
  children: number[];
}

export interface UnitGraph {
  units: Unit[];
  /** The members of expanded groups come after these units. */
  topLevelCount: number;
  /** The unit of each node, by node number. */
  unitOfNode: Int32Array;
}

/** Nodes with the same parents, children and handler. */
export interface Group {
  id: string;
  members: number[];
}

export function findGroups(graph: Graph): Group[] {
  if (graph.nodes.length <= GRAPH_NODES_MIN) {
    return [];
  }
  const byHash = new Map<number, number[][]>();
  graph.nodes.forEach((node, number) => {
    const hash = hashOf(node);
    const buckets = byHash.get(hash);
    const bucket = buckets?.find((members) => areEquivalent(graph.nodes[members[0] as number] as GraphNode, node));
    if (bucket) {
      bucket.push(number);
    } else if (buckets) {
      buckets.push([number]);
    } else {
      byHash.set(hash, [[number]]);
    }
  });
  const groups: number[][] = [];
  for (const buckets of byHash.values()) {
    groups.push(...buckets.filter((members) => members.length >= GROUP_NODES_MIN));
  }
  return groups.map((members) => ({ id: `group of ${graph.nodes[members[0] as number]?.id}`, members }));
}

/** Return the units to draw while the given groups are expanded. */
export function buildUnitGraph(graph: Graph, groups: Group[], expanded: ReadonlySet<string>): UnitGraph {
  const groupOf = new Map<number, Group>();
  for (const group of groups) {
    for (const member of group.members) {
      groupOf.set(member, group);
    }
  }
  const units: Unit[] = [];
  const unitOfNode = new Int32Array(graph.nodes.length);
  graph.nodes.forEach((node, number) => {
    const group = groupOf.get(number);
    const first = group?.members[0] ?? number;
    if (first !== number) {
      unitOfNode[number] = unitOfNode[first] as number;
      return;
    }
    unitOfNode[number] = units.length;
    units.push(group ? createUnit("group", group.id, group.members) : createUnit("node", node.id, [number]));
  });
  connect(graph, units, unitOfNode);
  const topLevelCount = units.length;
  for (let number = 0; number < topLevelCount; number++) {
    if (expanded.has((units[number] as Unit).id)) {
      expand(graph, units, unitOfNode, number);
    }
  }
  return { units, topLevelCount, unitOfNode };
}

function createUnit(kind: Unit["kind"], id: string, members: number[]): Unit {
  return { kind, id, members, firstMember: -1, group: -1, parents: [], children: [] };
}

/** Add the edges between units. All members of a group have the same edges. */
function connect(graph: Graph, units: Unit[], unitOfNode: Int32Array): void {
  units.forEach((unit, number) => {
    for (const parent of graph.nodes[unit.members[0] as number]?.parents ?? []) {
      const parentUnit = units[unitOfNode[parent] as number] as Unit;
      // A parent group has an edge from each member but counts once.
      if (parentUnit.children.at(-1) !== number) {
        parentUnit.children.push(number);
        unit.parents.push(unitOfNode[parent] as number);
      }
    }
  });
}

function expand(graph: Graph, units: Unit[], unitOfNode: Int32Array, number: number): void {
  const group = units[number] as Unit;
  if (group.kind !== "group") {
    return;
  }
  group.firstMember = units.length;
  const { parents, children } = group;
  for (const member of group.members) {
    unitOfNode[member] = units.length;
    const unit = createUnit("node", graph.nodes[member]?.id ?? "", [member]);
    units.push({ ...unit, group: number, parents, children });
  }
}

function areEquivalent(one: GraphNode, other: GraphNode): boolean {
  return (
    one.handler === other.handler &&
    one.isLoop === other.isLoop &&
    areEqual(one.parents, other.parents) &&
    areEqual(one.children, other.children)
  );
}

function areEqual(one: number[], other: number[]): boolean {
  return one.length === other.length && one.every((number, index) => number === other[index]);
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
