// Runs and deliveries belong together: the way from one list to the other.

import { useNavigate } from "@tanstack/react-router";
import { Tabs } from "../components/controls";

export function Places({ current }: { current: "runs" | "deliveries" }) {
  const navigate = useNavigate();
  return (
    <div className="mb-4">
      <Tabs
        label="Runs and deliveries"
        tabs={[
          {
            key: "runs",
            name: "Runs",
            current: current === "runs",
            onPick: () => void navigate({ to: "/runs" }),
          },
          {
            key: "deliveries",
            name: "Deliveries",
            current: current === "deliveries",
            onPick: () => void navigate({ to: "/deliveries" }),
          },
        ]}
      />
    </div>
  );
}
