// A scrollable region that is reachable by keyboard.

import type { ComponentProps } from "react";

export function ScrollBox({ label, children, ...rest }: ComponentProps<"section"> & { label: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
    <section aria-label={label} tabIndex={0} {...rest}>
      {children}
    </section>
  );
}
