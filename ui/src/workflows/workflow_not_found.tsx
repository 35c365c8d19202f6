// The page of a workflow that does not exist.

import { Link } from "@tanstack/react-router";
import { linkClass } from "../components/controls";
import { NotFound } from "../components/not_found";

export function WorkflowNotFound() {
  return (
    <NotFound name="Workflow">
      <Link to="/workflows" className={linkClass}>
        Show all workflows
      </Link>
    </NotFound>
  );
}
