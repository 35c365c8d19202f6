// Drafts of documents, saved in the session storage.

import { useEffect, useRef } from "react";

const PREFIX = "windlass.draft.";
// Saving a large document with every key press would be slow.
const SAVE_DELAY_MS = 400;

export function loadDraft(workflowId: string): string | null {
  return sessionStorage.getItem(PREFIX + workflowId);
}

function saveDraft(workflowId: string, text: string): void {
  try {
    sessionStorage.setItem(PREFIX + workflowId, text);
  } catch {
    // The storage is full: the draft is kept in the page only.
  }
}

/** Save a draft after a delay and when the page is left. */
export function useSavedDraft(workflowId: string, text: string, isDraft: boolean): void {
  const latest = useRef({ workflowId, text, isDraft });
  latest.current = { workflowId, text, isDraft };
  useEffect(() => {
    if (isDraft) {
      const timer = setTimeout(() => saveDraft(workflowId, text), SAVE_DELAY_MS);
      return () => clearTimeout(timer);
    }
  }, [workflowId, text, isDraft]);
  useEffect(() => {
    const saveNow = () => latest.current.isDraft && saveDraft(latest.current.workflowId, latest.current.text);
    addEventListener("pagehide", saveNow);
    return () => {
      removeEventListener("pagehide", saveNow);
      saveNow();
    };
  }, []);
}

export function deleteDraft(workflowId: string): void {
  sessionStorage.removeItem(PREFIX + workflowId);
}
