// The frame around every page: navigation, server health and keyboard shortcuts.

import { useQuery } from "@tanstack/react-query";
import { createRootRoute, Link, Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { healthQuery } from "./api/queries";
import { Button } from "./components/controls";
import { Dialog } from "./components/dialog";
import { NotFound } from "./components/not_found";
import { ErrorAlert } from "./components/query_result";
import { useTheme } from "./lib/use_theme";

const PAGES = [
  { to: "/", name: "Jobs", key: "j", paths: ["/jobs", "/compare"] },
  { to: "/workflows", name: "Workflows", key: "w", paths: ["/workflows", "/editor"] },
  { to: "/schedules", name: "Schedules", key: "s", paths: ["/schedules"] },
  { to: "/runs", name: "Runs", key: "r", paths: ["/runs", "/deliveries"] },
  { to: "/operations", name: "Operations", key: "o", paths: ["/operations"] },
] as const;

const SHORTCUTS: [string, string][] = [
  ["/", "Search"],
  ...PAGES.map(({ key, name }): [string, string] => [`g ${key}`, `Go to ${name.toLowerCase()}`]),
  ["[ and ]", "Previous or next event of a job"],
  ["t", "Toggle theme"],
  ["?", "Show shortcuts"],
  ["Esc", "Close panel or dialog"],
];

export const rootRoute = createRootRoute({
  component: AppFrame,
  notFoundComponent: () => <NotFound name="Page">Choose a page in the navigation bar.</NotFound>,
  errorComponent: ({ error }) => <ErrorAlert error={error} title="Page failed" />,
});

function AppFrame() {
  const [theme, toggleTheme] = useTheme();
  const [isHelpOpen, setHelpOpen] = useState(false);
  useShortcuts(toggleTheme, () => setHelpOpen(true));
  const path = useLocation({ select: ({ pathname }) => pathname });
  return (
    <div className="flex min-h-full flex-col">
      <a
        href="#page"
        className="sr-only focus:not-sr-only focus:absolute focus:left-2 focus:top-2 focus:z-50 focus:rounded focus:bg-surface focus:p-2"
      >
        Skip to content
      </a>
      <header className="sticky top-0 z-30 flex min-h-12 flex-wrap items-center gap-2 max-sm:pb-1 border-b border-line bg-surface px-3 sm:px-5">
        <Link to="/" className="mr-2 flex items-center gap-2 font-semibold tracking-tight" aria-label="Windlass: jobs">
          <img src="/icon.svg" alt="" width="22" height="22" />
          <span className="sm:hidden md:inline">Windlass</span>
        </Link>
        <nav
          aria-label="Main"
          className="flex flex-1 gap-0.5 max-sm:order-last max-sm:basis-full max-sm:justify-between"
        >
          {PAGES.map(({ to, name, paths }) => (
            <Link
              key={to}
              to={to}
              activeOptions={{ exact: true, includeSearch: false }}
              className={`rounded-md px-1.5 py-1 text-sm font-medium hover:bg-sunken hover:text-ink sm:px-2.5 ${
                isInSection(path, to, paths) ? "bg-sunken text-ink" : "text-muted"
              }`}
            >
              {name}
            </Link>
          ))}
        </nav>
        <span className="flex-1 sm:hidden" />
        <ServerHealth />
        <Button variant="ghost" aria-label={theme === "dark" ? "Light theme" : "Dark theme"} onClick={toggleTheme}>
          {theme === "dark" ? "☀" : "☾"}
        </Button>
        <Button
          variant="ghost"
          className="max-sm:hidden"
          aria-label="Keyboard shortcuts"
          onClick={() => setHelpOpen(true)}
        >
          ?
        </Button>
      </header>
      <main id="page" tabIndex={-1} className="mx-auto w-full max-w-[110rem] flex-1 p-3 outline-none sm:p-5">
        <Outlet />
      </main>
      {isHelpOpen && <ShortcutsDialog onClose={() => setHelpOpen(false)} />}
    </div>
  );
}

/** Whether a path belongs to a page of the navigation, or to one below it. */
function isInSection(path: string, to: string, paths: readonly string[]): boolean {
  return path === to || paths.some((prefix) => path === prefix || path.startsWith(`${prefix}/`));
}

function ShortcutsDialog({ onClose }: { onClose(): void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl className="grid grid-cols-[6rem_1fr] gap-y-2">
        {SHORTCUTS.map(([key, action]) => (
          <div key={key} className="contents">
            <dt>
              <kbd className="rounded border border-line bg-sunken px-1.5 py-0.5 font-mono text-xs">{key}</kbd>
            </dt>
            <dd>{action}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

function ServerHealth() {
  const health = useQuery({ ...healthQuery(), refetchInterval: 10_000, retry: false });
  let [text, tone] = ["Healthy", "bg-completed"];
  if (health.isError) {
    [text, tone] = ["Unreachable", "bg-failed"];
  } else if (health.data?.status === "degraded") {
    [text, tone] = ["Degraded", "bg-waiting"];
  }
  return (
    <Link to="/operations" className="flex items-center gap-1.5 px-2 text-xs text-muted hover:text-ink">
      <span className={`size-2 rounded-full ${tone}`} aria-hidden="true" />
      <span>{text}</span>
    </Link>
  );
}

/** Handle shortcuts such as `g j`, except while the user types into a field. */
function useShortcuts(toggleTheme: () => void, showHelp: () => void): void {
  const navigate = useNavigate();
  const isGoTo = useRef(false);
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog")) {
        return;
      }
      const page = isGoTo.current ? PAGES.find(({ key }) => key === event.key) : undefined;
      isGoTo.current = event.key === "g" && !isGoTo.current;
      if (page) {
        void navigate({ to: page.to });
      } else if (event.key === "t") {
        toggleTheme();
      } else if (event.key === "?") {
        showHelp();
      } else if (event.key === "/") {
        event.preventDefault();
        document.querySelector<HTMLInputElement>("[data-search]")?.focus();
      }
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, [navigate, toggleTheme, showHelp]);
}
