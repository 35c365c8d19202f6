// A button that copies text to the clipboard.

import { useEffect, useState } from "react";
import { Button } from "./controls";

const CONFIRMATION_MS = 1_500;

export function CopyButton({
  text,
  label,
  children = "Copy",
  className = "",
}: {
  text: string | (() => string);
  label?: string;
  children?: string;
  className?: string;
}) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) {
      return;
    }
    const timer = setTimeout(() => setCopied(false), CONFIRMATION_MS);
    return () => clearTimeout(timer);
  }, [copied]);
  // Browsers provide the clipboard to secure origins only; localhost is one.
  if (!navigator.clipboard) {
    return null;
  }
  const copy = async () => {
    await navigator.clipboard.writeText(typeof text === "string" ? text : text());
    setCopied(true);
  };
  return (
    <Button
      variant="ghost"
      aria-label={label}
      className={`!h-6 !px-1.5 text-xs text-muted ${className}`}
      onClick={() => void copy()}
    >
      {copied ? "Copied" : children}
    </Button>
  );
}
