// Where two JSON values differ, path by path.

import type { Json } from "../../api/types";

export interface ValueDifference {
  path: string;
  /** Undefined where there is nothing. */
  left: Json | undefined;
  right: Json | undefined;
}

export const DIFFERENCES_MAX = 200;

/** The first differences, in the order of the left value's keys. */
export function valueDifferences(left: Json, right: Json): ValueDifference[] {
  const found: ValueDifference[] = [];
  const waiting: ValueDifference[] = [{ path: "", left, right }];
  while (waiting.length > 0 && found.length < DIFFERENCES_MAX) {
    const one = waiting.shift() as ValueDifference;
    if (isBranch(one.left) && isBranch(one.right) && Array.isArray(one.left) === Array.isArray(one.right)) {
      waiting.unshift(...within(one.path, one.left, one.right));
    } else if (!isSameLeaf(one.left, one.right)) {
      found.push(one);
    }
  }
  return found;
}

type Branch = Json[] | { [key: string]: Json };

function isBranch(value: Json | undefined): value is Branch {
  return typeof value === "object" && value !== null;
}

function isSameLeaf(left: Json | undefined, right: Json | undefined): boolean {
  return left === right || (isEmpty(left) && isEmpty(right) && Array.isArray(left) === Array.isArray(right));
}

function isEmpty(value: Json | undefined): boolean {
  return isBranch(value) && Object.keys(value).length === 0;
}

function within(path: string, left: Branch, right: Branch): ValueDifference[] {
  const keys = new Set([...Object.keys(left), ...Object.keys(right)]);
  const isList = Array.isArray(left);
  return [...keys].map((key) => ({
    path: isList ? `${path}[${key}]` : path ? `${path}.${key}` : key,
    left: Object.hasOwn(left, key) ? (left as { [key: string]: Json })[key] : undefined,
    right: Object.hasOwn(right, key) ? (right as { [key: string]: Json })[key] : undefined,
  }));
}
