// A way to another page that looks like a button.

import { createLink } from "@tanstack/react-router";
import type { ComponentProps } from "react";
import { buttonLook, type Look } from "./controls";

function Anchor({ look = "plain", className = "", ...rest }: ComponentProps<"a"> & { look?: Look }) {
  return <a className={`${buttonLook(look)} ${className}`} {...rest} />;
}

export const ButtonLink = createLink(Anchor);
