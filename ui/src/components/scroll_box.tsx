// A box that scrolls by itself, which a keyboard can reach for that.

import type { ComponentProps } from "react";

export function ScrollBox({ label, children, ...rest }: ComponentProps<"section"> & { label: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard
    <section aria-label={label} tabIndex={0} {...rest}>
      {children}
    </section>
  );
}
