// The frame around every page: where to go, how the server is, and the keys.

import { useQuery } from "@tanstack/react-query";
import { createRootRoute, Link, Outlet, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { healthQuery } from "./api/queries";
import { Button, Empty } from "./components/controls";
import { Dialog } from "./components/dialog";
import { ProblemBox } from "./components/query_result";
import { useTheme } from "./lib/use_theme";

const PLACES = [
  { to: "/", name: "Jobs", key: "j" },
  { to: "/workflows", name: "Workflows", key: "w" },
  { to: "/schedules", name: "Schedules", key: "s" },
  { to: "/runs", name: "Runs", key: "r" },
  { to: "/operations", name: "Operations", key: "o" },
] as const;

const KEYS: [string, string][] = [
  ["/", "Search on this page"],
  ...PLACES.map(({ key, name }): [string, string] => [`g ${key}`, `Go to ${name}`]),
  ["[ and ]", "One event back or on, on a job's page"],
  ["t", "Light or dark"],
  ["?", "These keys"],
  ["Esc", "Close a panel or dialog"],
];

export const rootRoute = createRootRoute({
  component: Frame,
  notFoundComponent: () => <Empty title="There is no such page">The places are in the bar above.</Empty>,
  errorComponent: ({ error }) => <ProblemBox error={error} title="This page broke" />,
});

function Frame() {
  const [theme, turnTheme] = useTheme();
  const [keysShown, setKeysShown] = useState(false);
  useKeys(turnTheme, () => setKeysShown(true));
  return (
    <div className="flex min-h-full flex-col">
      <a
        href="#page"
        className="sr-only focus:not-sr-only focus:absolute focus:left-2 focus:top-2 focus:z-50 focus:rounded focus:bg-surface focus:p-2"
      >
        Skip to the page
      </a>
      <header className="sticky top-0 z-30 flex h-12 items-center gap-2 border-b border-line bg-surface px-3 sm:px-5">
        <Link to="/" className="mr-2 flex items-center gap-2 font-semibold tracking-tight" aria-label="Windlass: jobs">
          <img src="/icon.svg" alt="" width="22" height="22" />
          <span className="hidden md:inline">Windlass</span>
        </Link>
        <nav aria-label="Places" className="flex flex-1 gap-0.5 overflow-x-auto">
          {PLACES.map(({ to, name }) => (
            <Link
              key={to}
              to={to}
              activeOptions={{ exact: to === "/", includeSearch: false }}
              className="rounded-md px-2.5 py-1 text-sm font-medium text-muted hover:bg-sunken hover:text-ink"
              activeProps={{ className: "bg-sunken !text-ink" }}
            >
              {name}
            </Link>
          ))}
        </nav>
        <Server />
        <Button look="quiet" aria-label={theme === "dark" ? "Switch to light" : "Switch to dark"} onClick={turnTheme}>
          {theme === "dark" ? "☀" : "☾"}
        </Button>
        <Button look="quiet" className="hidden sm:inline-flex" aria-label="Keys" onClick={() => setKeysShown(true)}>
          ?
        </Button>
      </header>
      <main id="page" tabIndex={-1} className="mx-auto w-full max-w-[110rem] flex-1 p-3 outline-none sm:p-5">
        <Outlet />
      </main>
      {keysShown && (
        <Dialog title="Keys" onClose={() => setKeysShown(false)}>
          <dl className="grid grid-cols-[6rem_1fr] gap-y-2">
            {KEYS.map(([key, does]) => (
              <div key={key} className="contents">
                <dt>
                  <kbd className="rounded border border-line bg-sunken px-1.5 py-0.5 font-mono text-xs">{key}</kbd>
                </dt>
                <dd>{does}</dd>
              </div>
            ))}
          </dl>
        </Dialog>
      )}
    </div>
  );
}

/** Whether the server answers and is well. */
function Server() {
  const health = useQuery({ ...healthQuery(), refetchInterval: 10_000, retry: false });
  const [word, tone] = health.isError
    ? ["does not answer", "bg-failed"]
    : health.data?.status === "degraded"
      ? ["degraded", "bg-waiting"]
      : ["well", "bg-completed"];
  return (
    <Link to="/operations" className="hidden items-center gap-1.5 px-2 text-xs text-muted hover:text-ink sm:flex">
      <span className={`size-2 rounded-full ${tone}`} aria-hidden="true" />
      <span>Server {word}</span>
    </Link>
  );
}

/** `g j` and the like; nothing while somebody types into a field. */
function useKeys(turnTheme: () => void, showKeys: () => void): void {
  const navigate = useNavigate();
  const isGoing = useRef(false);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog")) {
        return;
      }
      const place = isGoing.current ? PLACES.find(({ key }) => key === event.key) : undefined;
      isGoing.current = event.key === "g" && !isGoing.current;
      if (place) {
        void navigate({ to: place.to });
      } else if (event.key === "t") {
        turnTheme();
      } else if (event.key === "?") {
        showKeys();
      } else if (event.key === "/") {
        event.preventDefault();
        document.querySelector<HTMLInputElement>("[data-search]")?.focus();
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [navigate, turnTheme, showKeys]);
}
