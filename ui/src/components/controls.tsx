// Buttons, form fields, panels and other basic components.

import { type ComponentProps, type ReactNode, useId } from "react";

export type ButtonVariant = "default" | "primary" | "danger" | "ghost";

const VARIANTS: Record<ButtonVariant, string> = {
  default: "border-line bg-surface hover:bg-sunken",
  primary: "border-transparent bg-accent text-on-accent hover:brightness-110",
  danger: "border-failed/50 bg-surface text-failed hover:bg-failed/10",
  ghost: "border-transparent hover:bg-sunken",
};

/** Classes of a button or of a link that looks like one. */
export function buttonClass(variant: ButtonVariant): string {
  return `inline-flex h-8 items-center justify-center gap-1.5 whitespace-nowrap rounded-md border px-3 text-sm font-medium transition-colors ${VARIANTS[variant]}`;
}

export function Button({
  variant = "default",
  className = "",
  ...rest
}: ComponentProps<"button"> & { variant?: ButtonVariant }) {
  return <button type="button" className={`${buttonClass(variant)} disabled:opacity-50 ${className}`} {...rest} />;
}

const FIELD_CLASS = "h-8 rounded-md border border-line bg-surface px-2.5 text-sm";

/** An input with a label; `hideLabel` shows the label to screen readers only. */
export function Field({
  label,
  hideLabel = false,
  className = "",
  ...rest
}: ComponentProps<"input"> & { label: string; hideLabel?: boolean }) {
  const id = useId();
  return (
    <span className="inline-flex flex-col gap-1">
      <label htmlFor={id} className={hideLabel ? "sr-only" : "text-xs text-muted"}>
        {label}
      </label>
      <input id={id} className={`${FIELD_CLASS} ${className}`} {...rest} />
    </span>
  );
}

export function Select({
  label,
  hideLabel = false,
  options,
  className = "",
  ...rest
}: ComponentProps<"select"> & { label: string; hideLabel?: boolean; options: readonly (readonly [string, string])[] }) {
  const id = useId();
  return (
    <span className="inline-flex flex-col gap-1">
      <label htmlFor={id} className={hideLabel ? "sr-only" : "text-xs text-muted"}>
        {label}
      </label>
      <select id={id} className={`${FIELD_CLASS} ${className}`} {...rest}>
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

/** The title, subtitle and actions of a page. */
export function PageHeader({
  title,
  subtitle,
  actions,
}: {
  title: ReactNode;
  subtitle?: ReactNode;
  actions?: ReactNode;
}) {
  return (
    <header className="mb-4 flex flex-wrap items-start justify-between gap-3">
      <div className="min-w-0">
        <h1 className="break-words text-xl font-semibold tracking-tight">{title}</h1>
        {subtitle && <div className="mt-0.5 text-muted">{subtitle}</div>}
      </div>
      {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
    </header>
  );
}

/** The placeholder of an empty list, with the next step. */
export function EmptyState({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="px-6 py-12 text-center">
      <p className="font-medium">{title}</p>
      {children && <div className="mx-auto mt-1 max-w-prose text-muted">{children}</div>}
    </div>
  );
}

/** A tab bar; the caller keeps the current tab in the URL. */
export function Tabs({
  label,
  tabs,
}: {
  label: string;
  tabs: { key: string; name: string; isCurrent: boolean; onSelect(): void }[];
}) {
  return (
    <div role="tablist" aria-label={label} className="flex gap-1 overflow-x-auto border-b border-line">
      {tabs.map((tab) => (
        <button
          key={tab.key}
          type="button"
          role="tab"
          aria-selected={tab.isCurrent}
          onClick={tab.onSelect}
          className={`-mb-px whitespace-nowrap border-b-2 px-3 py-2 text-sm font-medium ${
            tab.isCurrent ? "border-accent text-ink" : "border-transparent text-muted hover:text-ink"
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

export const linkClass = "text-accent underline-offset-2 hover:underline";

/** The button below a list that has more pages. */
export function LoadMore({ onClick, isBusy }: { onClick(): void; isBusy: boolean }) {
  return (
    <div className="p-3 text-center">
      <Button onClick={onClick} disabled={isBusy}>
        {isBusy ? "Loading…" : "Load more"}
      </Button>
    </div>
  );
}
