// Drafts that were not deployed yet, kept as long as the tab is open.

import { useEffect, useRef } from "react";

const PREFIX = "windlass.draft.";
// A large document takes a while to store: not with every key.
const KEEP_MS = 400;

export function keptDraft(workflowId: string): string | null {
  return sessionStorage.getItem(PREFIX + workflowId);
}

function keepDraft(workflowId: string, text: string): void {
  try {
    sessionStorage.setItem(PREFIX + workflowId, text);
  } catch {
    // The store of the browser is full: the draft lives in the page alone.
  }
}

/** Keeps a draft once the typing rests, and when the page is left before. */
export function useDraftKept(workflowId: string, text: string, isDraft: boolean): void {
  const latest = useRef({ workflowId, text, isDraft });
  latest.current = { workflowId, text, isDraft };
  useEffect(() => {
    if (isDraft) {
      const timer = setTimeout(() => keepDraft(workflowId, text), KEEP_MS);
      return () => clearTimeout(timer);
    }
  }, [workflowId, text, isDraft]);
  useEffect(() => {
    const keep = () => latest.current.isDraft && keepDraft(latest.current.workflowId, latest.current.text);
    addEventListener("pagehide", keep);
    return () => {
      removeEventListener("pagehide", keep);
      keep();
    };
  }, []);
}

export function dropDraft(workflowId: string): void {
  sessionStorage.removeItem(PREFIX + workflowId);
}
