// The title of the browser tab.

import { useEffect } from "react";

const NAME = "Windlass";

/** "hello · Workflows · Windlass": the most specific part first, empty parts omitted. */
export function pageTitle(parts: readonly (string | undefined)[]): string {
  return [...parts, NAME].filter(Boolean).join(" · ");
}

export function usePageTitle(...parts: (string | undefined)[]): void {
  const title = pageTitle(parts);
  useEffect(() => {
    document.title = title;
  }, [title]);
}
