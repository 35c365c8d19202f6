// A link that looks like a button.

import { createLink } from "@tanstack/react-router";
import type { ComponentProps } from "react";
import { type ButtonVariant, buttonClass } from "./controls";

function Anchor({ variant = "default", className = "", ...rest }: ComponentProps<"a"> & { variant?: ButtonVariant }) {
  return <a className={`${buttonClass(variant)} ${className}`} {...rest} />;
}

export const ButtonLink = createLink(Anchor);
