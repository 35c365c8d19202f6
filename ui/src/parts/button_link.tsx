// A way to another page that looks like a button.

import { createLink } from "@tanstack/react-router";
import type { ComponentProps } from "react";

const LOOKS = {
  plain: "border-line bg-surface hover:bg-sunken",
  main: "border-transparent bg-accent text-on-accent hover:brightness-110",
  quiet: "border-transparent hover:bg-sunken",
};

function Anchor({ look = "plain", className = "", ...rest }: ComponentProps<"a"> & { look?: keyof typeof LOOKS }) {
  return (
    <a
      className={`inline-flex h-8 items-center justify-center gap-1.5 whitespace-nowrap rounded-md border px-3 text-sm font-medium transition-colors ${LOOKS[look]} ${className}`}
      {...rest}
    />
  );
}

export const ButtonLink = createLink(Anchor);
