// Finds the differences between two JSON values.

import type { Json } from "../../api/types";

export interface ValueDifference {
  path: string;
  /** Undefined if the value is missing. */
  left: Json | undefined;
  right: Json | undefined;
}

export const DIFFERENCES_MAX = 200;

/** Return the first differences, in the order of the keys on the left. */
export function valueDifferences(left: Json, right: Json): ValueDifference[] {
  const differences: ValueDifference[] = [];
  const queue: ValueDifference[] = [{ path: "", left, right }];
  while (queue.length > 0 && differences.length < DIFFERENCES_MAX) {
    const next = queue.shift() as ValueDifference;
    if (isContainer(next.left) && isContainer(next.right) && Array.isArray(next.left) === Array.isArray(next.right)) {
      queue.unshift(...childrenOf(next.path, next.left, next.right));
    } else if (!isSameValue(next.left, next.right)) {
      differences.push(next);
    }
  }
  return differences;
}

type Container = Json[] | { [key: string]: Json };

function isContainer(value: Json | undefined): value is Container {
  return typeof value === "object" && value !== null;
}

function isSameValue(left: Json | undefined, right: Json | undefined): boolean {
  return left === right || (isEmpty(left) && isEmpty(right) && Array.isArray(left) === Array.isArray(right));
}

function isEmpty(value: Json | undefined): boolean {
  return isContainer(value) && Object.keys(value).length === 0;
}

function childrenOf(path: string, left: Container, right: Container): ValueDifference[] {
  const keys = new Set([...Object.keys(left), ...Object.keys(right)]);
  const isList = Array.isArray(left);
  return [...keys].map((key) => ({
    path: isList ? `${path}[${key}]` : path ? `${path}.${key}` : key,
    left: Object.hasOwn(left, key) ? (left as { [key: string]: Json })[key] : undefined,
    right: Object.hasOwn(right, key) ? (right as { [key: string]: Json })[key] : undefined,
  }));
}
