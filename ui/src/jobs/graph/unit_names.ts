// Names of units, and the search for nodes by name.

import { formatCount } from "../../lib/format";
import type { Graph } from "../model/graph";
import type { Unit } from "../model/groups";

export function unitName(graph: Graph, unit: Pick<Unit, "kind" | "id" | "members">): string {
  if (unit.kind === "node") {
    return unit.id;
  }
  return `${formatCount(unit.members.length)} × ${graph.nodes[unit.members[0] as number]?.handler ?? ""}`;
}

/** Allow line breaks after separators. */
export function withLineBreaks(name: string): string {
  return name.replaceAll(/[_.-]/g, "$&\u200b");
}

/** Return node ids that contain a text; those that begin with it come first. */
export function searchNodes(graph: Graph, text: string, limit: number): string[] {
  const query = text.trim().toLowerCase();
  if (query === "") {
    return [];
  }
  const prefixMatches: string[] = [];
  const otherMatches: string[] = [];
  for (const { id } of graph.nodes) {
    const index = id.toLowerCase().indexOf(query);
    if (index === 0) {
      prefixMatches.push(id);
    } else if (index > 0 && otherMatches.length < limit) {
      otherMatches.push(id);
    }
    if (prefixMatches.length >= limit) {
      break;
    }
  }
  // The exact match comes first.
  prefixMatches.sort((one, other) => one.length - other.length);
  return [...prefixMatches, ...otherMatches].slice(0, limit);
}
