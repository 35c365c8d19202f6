// The editor of workflow documents, validated by the server while the user types.

import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { ApiError, apiPath, send, toApiError } from "../../api/client";
import { documentQuery } from "../../api/queries";
import type { Validation, Workflow } from "../../api/types";
import { Button, linkClass, PageHeader, Panel } from "../../components/controls";
import { isNotFound } from "../../components/not_found";
import { ErrorAlert, QueryResult } from "../../components/query_result";
import { pluralize } from "../../lib/format";
import { usePageTitle } from "../../lib/page_title";
import { workflowQuery } from "../queries";
import { WorkflowNotFound } from "../workflow_not_found";
import { toDiagnostics } from "./diagnostics";
import { DiagnosticsList } from "./diagnostics_list";
import { deleteDraft, loadDraft, useSavedDraft } from "./drafts";
import { STARTER_DOCUMENT } from "./starter_document";
import { type EditorHandle, TextEditor } from "./text_editor";

const VALIDATION_DELAY_MS = 400;
const JSON_TYPE = "application/json";
const YAML_TYPE = "application/yaml";

const route = getRouteApi("/editor");

export function EditorPage() {
  const { id } = route.useSearch();
  return id === undefined ? (
    <Editor key="" workflowId="" deployed={STARTER_DOCUMENT} />
  ) : (
    <ExistingWorkflow key={id} workflowId={id} />
  );
}

function ExistingWorkflow({ workflowId }: { workflowId: string }) {
  const workflow = useQuery(workflowQuery(workflowId));
  const version = workflow.data?.version;
  // Keeps the editor and its message while the document of a new version is loaded.
  const text = useQuery({
    ...documentQuery(workflowId, version ?? 0),
    enabled: version !== undefined,
    placeholderData: keepPreviousData,
  });
  if (!workflow.data && isNotFound(workflow.error)) {
    return <WorkflowNotFound />;
  }
  return (
    <QueryResult query={{ data: text.data, error: workflow.error ?? text.error, isPending: text.isPending }}>
      {(deployed) => <Editor workflowId={workflowId} deployed={deployed} />}
    </QueryResult>
  );
}

/** `workflowId` is empty for a new workflow. */
function Editor({ workflowId, deployed }: { workflowId: string; deployed: string }) {
  // A deployment elsewhere does not change the text.
  const [original, setOriginal] = useState(deployed);
  const [text, setText] = useState(() => loadDraft(workflowId) ?? deployed);
  const editor = useRef<EditorHandle>(null);
  useSavedDraft(workflowId, text, text !== original);
  const validation = useValidation(text);
  const deployment = useDeployment(workflowId, (deployedText) => setOriginal(deployedText));
  const title = workflowId ? `Edit ${workflowId}` : "New workflow";
  usePageTitle(title, "Workflows");
  const diagnostics = validation.data ? toDiagnostics(validation.data) : [];
  const change = (next: string) => {
    setText(next);
    deployment.reset();
  };
  const discard = () => {
    deleteDraft(workflowId);
    setText(original);
    deployment.reset();
  };
  return (
    <>
      <PageHeader
        title={title}
        subtitle={<ValidationStatus validation={validation} text={text} isDraft={text !== original} />}
        actions={
          <>
            {text !== original && <Button onClick={discard}>Discard draft</Button>}
            <Button
              variant="primary"
              disabled={deployment.isPending || validation.data?.valid === false}
              onClick={() => deployment.mutate(text)}
            >
              {deployment.isPending ? "Deploying…" : "Deploy"}
            </Button>
          </>
        }
      />
      <DeploymentResult deployment={deployment} />
      <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-[minmax(0,1fr)_24rem]">
        <Panel className="overflow-hidden">
          <div className="h-[min(70dvh,52rem)]">
            <TextEditor
              ref={editor}
              label="Workflow document"
              text={text}
              onChange={change}
              diagnostics={diagnostics}
              describedBy="editor-hint"
            />
          </div>
          <p id="editor-hint" className="border-t border-line px-3 py-1.5 text-xs text-muted">
            YAML or JSON. Tab indents. Press Esc, then Tab to leave the editor.
          </p>
        </Panel>
        <DiagnosticsList
          diagnostics={diagnostics}
          validation={validation}
          onSelect={(diagnostic) => editor.current?.goTo(diagnostic.line, diagnostic.column)}
        />
      </div>
    </>
  );
}

/** Validate the text on the server after a delay. */
function useValidation(text: string) {
  const [debounced, setDebounced] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setDebounced(text), VALIDATION_DELAY_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return useQuery({
    queryKey: ["validation", debounced],
    queryFn: () => send<Validation>("POST", apiPath("workflows", "validate"), debounced, contentTypeOf(debounced)),
    placeholderData: (before) => before,
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

function useDeployment(workflowId: string, onDeployed: (text: string) => void) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: deploy,
    onSuccess: (_, text) => {
      deleteDraft(workflowId);
      onDeployed(text);
      void queryClient.invalidateQueries({ queryKey: ["workflow"] });
      void queryClient.invalidateQueries({ queryKey: ["workflows"] });
    },
  });
}

/** Status 201 means that a new version was created. */
async function deploy(text: string): Promise<{ workflow: Workflow; isNew: boolean }> {
  const response = await fetch(apiPath("workflows"), {
    method: "POST",
    headers: { "content-type": contentTypeOf(text) },
    body: text,
  }).catch(() => {
    throw new ApiError(0, "The server is unreachable.");
  });
  if (!response.ok) {
    throw await toApiError(response);
  }
  return { workflow: (await response.json()) as Workflow, isNew: response.status === 201 };
}

function contentTypeOf(text: string): string {
  return text.trimStart().startsWith("{") ? JSON_TYPE : YAML_TYPE;
}

function ValidationStatus({
  validation,
  text,
  isDraft,
}: {
  validation: ReturnType<typeof useValidation>;
  text: string;
  isDraft: boolean;
}) {
  const errors = validation.data?.errors?.length ?? 0;
  let status = "Valid";
  if (validation.isPending) {
    status = "Validating…";
  } else if (validation.error) {
    status = "Not validated";
  } else if (errors > 0) {
    status = pluralize(errors, "error");
  }
  return (
    <span role="status">
      {status}
      {isDraft && text !== "" && ", draft saved in this tab"}
    </span>
  );
}

function DeploymentResult({ deployment }: { deployment: ReturnType<typeof useDeployment> }) {
  const { data, error } = deployment;
  if (error) {
    return (
      <div className="mb-4">
        <ErrorAlert error={error} title="Deployment failed" />
      </div>
    );
  }
  if (!data) {
    return null;
  }
  const { workflow_id: workflowId, version } = data.workflow;
  return (
    <p role="status" className="mb-4 rounded-md border border-completed/40 bg-completed/5 px-4 py-3">
      {data.isNew ? `Deployed ${workflowId} version ${version}. ` : `No changes since version ${version}. `}
      <Link to="/workflows/$workflowId" params={{ workflowId }} className={linkClass}>
        Show
      </Link>{" "}
      or{" "}
      <Link to="/workflows/$workflowId" params={{ workflowId }} search={{ tab: "run" }} className={linkClass}>
        run
      </Link>
      .
    </p>
  );
}
