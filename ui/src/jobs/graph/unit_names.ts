// What units are called.

import { count } from "../../lib/format";
import type { Graph } from "../model/graph";
import type { Unit } from "../model/groups";

export function nameOf(graph: Graph, unit: Pick<Unit, "kind" | "id" | "members">): string {
  if (unit.kind === "node") {
    return unit.id;
  }
  return `${count(unit.members.length)} × ${graph.nodes[unit.members[0] as number]?.handler ?? ""}`;
}

/** With places for a line to break after the signs that join words. */
export function breakable(name: string): string {
  return name.replaceAll(/[_.-]/g, "$&\u200b");
}

/** The ids that have a text in them: those that begin with it first, at most so many. */
export function found(graph: Graph, text: string, most: number): string[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") {
    return [];
  }
  const begin: string[] = [];
  const within: string[] = [];
  for (const { id } of graph.nodes) {
    const at = id.toLowerCase().indexOf(wanted);
    if (at === 0) {
      begin.push(id);
    } else if (at > 0 && within.length < most) {
      within.push(id);
    }
    if (begin.length >= most) {
      break;
    }
  }
  // The whole id before longer ones that begin with it.
  begin.sort((one, other) => one.length - other.length);
  return [...begin, ...within].slice(0, most);
}
