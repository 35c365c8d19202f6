// Tabs for the lists of runs and deliveries.

import { useNavigate } from "@tanstack/react-router";
import { Tabs } from "../components/controls";

export function RunsTabs({ current }: { current: "runs" | "deliveries" }) {
  const navigate = useNavigate();
  return (
    <div className="mb-4">
      <Tabs
        label="Runs and deliveries"
        tabs={[
          {
            key: "runs",
            name: "Runs",
            isCurrent: current === "runs",
            onSelect: () => void navigate({ to: "/runs" }),
          },
          {
            key: "deliveries",
            name: "Deliveries",
            isCurrent: current === "deliveries",
            onSelect: () => void navigate({ to: "/deliveries" }),
          },
        ]}
      />
    </div>
  );
}
