// The page of something that does not exist.

import type { ReactNode } from "react";
import { ApiError } from "../api/client";
import { usePageTitle } from "../lib/page_title";
import { PageHeader } from "./controls";

/** Whether the API has no such thing. Nothing has an invalid id, which is rejected with 422. */
export function isNotFound(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 404 || error.status === 422);
}

/** `children` leads to what exists. */
export function NotFound({ name, children }: { name: string; children: ReactNode }) {
  const title = `${name} not found`;
  usePageTitle(title);
  return <PageHeader title={title} subtitle={children} />;
}
