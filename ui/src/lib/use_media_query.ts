// Whether the screen is so, as long as somebody looks.

import { useCallback, useSyncExternalStore } from "react";

export function useMedia(query: string): boolean {
  const listen = useCallback(
    (onChange: () => void) => {
      const media = matchMedia(query);
      media.addEventListener("change", onChange);
      return () => media.removeEventListener("change", onChange);
    },
    [query],
  );
  return useSyncExternalStore(listen, () => matchMedia(query).matches);
}
