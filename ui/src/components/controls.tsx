// Buttons, fields and panels: the few that every page is made of.

import { Link } from "@tanstack/react-router";
import { type ComponentProps, type ReactNode, useId } from "react";

export type Look = "plain" | "main" | "danger" | "quiet";

const LOOKS: Record<Look, string> = {
  plain: "border-line bg-surface hover:bg-sunken",
  main: "border-transparent bg-accent text-on-accent hover:brightness-110",
  danger: "border-failed/50 bg-surface text-failed hover:bg-failed/10",
  quiet: "border-transparent hover:bg-sunken",
};

/** How a button looks, and what leads elsewhere like one. */
export function buttonLook(look: Look): string {
  return `inline-flex h-8 items-center justify-center gap-1.5 whitespace-nowrap rounded-md border px-3 text-sm font-medium transition-colors ${LOOKS[look]}`;
}

export function Button({ look = "plain", className = "", ...rest }: ComponentProps<"button"> & { look?: Look }) {
  return <button type="button" className={`${buttonLook(look)} disabled:opacity-50 ${className}`} {...rest} />;
}

const FIELD = "h-8 rounded-md border border-line bg-surface px-2.5 text-sm";

/** A field with a label that may be seen by readers of the screen only. */
export function Field({
  label,
  hidden = false,
  className = "",
  ...rest
}: ComponentProps<"input"> & { label: string; hidden?: boolean }) {
  const id = useId();
  return (
    <span className="inline-flex flex-col gap-1">
      <label htmlFor={id} className={hidden ? "sr-only" : "text-xs text-muted"}>
        {label}
      </label>
      <input id={id} className={`${FIELD} ${className}`} {...rest} />
    </span>
  );
}

export function Choice({
  label,
  hidden = false,
  options,
  className = "",
  ...rest
}: ComponentProps<"select"> & { label: string; hidden?: boolean; options: readonly (readonly [string, string])[] }) {
  const id = useId();
  return (
    <span className="inline-flex flex-col gap-1">
      <label htmlFor={id} className={hidden ? "sr-only" : "text-xs text-muted"}>
        {label}
      </label>
      <select id={id} className={`${FIELD} ${className}`} {...rest}>
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </span>
  );
}

export function Panel({
  title,
  actions,
  children,
  className = "",
}: {
  title?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  className?: string;
}) {
  return (
    <section className={`min-w-0 rounded-lg border border-line bg-surface ${className}`}>
      {(title || actions) && (
        <header className="flex min-h-11 flex-wrap items-center justify-between gap-2 border-b border-line px-4 py-1.5">
          <h2 className="font-semibold">{title}</h2>
          {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
        </header>
      )}
      {children}
    </section>
  );
}

/** The head of a page: its title, what it is about in a line, and its actions. */
export function PageHead({ title, about, actions }: { title: ReactNode; about?: ReactNode; actions?: ReactNode }) {
  return (
    <header className="mb-4 flex flex-wrap items-start justify-between gap-3">
      <div className="min-w-0">
        <h1 className="break-words text-xl font-semibold tracking-tight">{title}</h1>
        {about && <div className="mt-0.5 text-muted">{about}</div>}
      </div>
      {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
    </header>
  );
}

/** What stands where nothing is yet: what would be here, and how to get it. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="px-6 py-12 text-center">
      <p className="font-medium">{title}</p>
      {children && <div className="mx-auto mt-1 max-w-prose text-muted">{children}</div>}
    </div>
  );
}

/** Tabs that live in the address. */
export function Tabs({
  label,
  tabs,
}: {
  label: string;
  tabs: { key: string; name: string; current: boolean; onPick(): void }[];
}) {
  return (
    <div role="tablist" aria-label={label} className="flex gap-1 overflow-x-auto border-b border-line">
      {tabs.map((tab) => (
        <button
          key={tab.key}
          type="button"
          role="tab"
          aria-selected={tab.current}
          onClick={tab.onPick}
          className={`-mb-px whitespace-nowrap border-b-2 px-3 py-2 text-sm font-medium ${
            tab.current ? "border-accent text-ink" : "border-transparent text-muted hover:text-ink"
          }`}
        >
          {tab.name}
        </button>
      ))}
    </div>
  );
}

export function Code({ children }: { children: ReactNode }) {
  return <code className="rounded bg-sunken px-1.5 py-0.5 font-mono text-[0.9em]">{children}</code>;
}

export const textLink = "text-accent underline-offset-2 hover:underline";

/** The end of a list that has more. */
export function More({ onClick, busy }: { onClick(): void; busy: boolean }) {
  return (
    <div className="p-3 text-center">
      <Button onClick={onClick} disabled={busy}>
        {busy ? "Loading…" : "Show more"}
      </Button>
    </div>
  );
}

export { Link };
