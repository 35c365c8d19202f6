// Writes and changes workflows: checked by the server as one types, every problem marked at its line.

import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { at, Problem, problemOf, send } from "../../api/client";
import { documentQuery } from "../../api/queries";
import type { Validation, Workflow } from "../../api/types";
import { Button, PageHead, Panel, textLink } from "../../components/controls";
import { Loaded, ProblemBox } from "../../components/query_result";
import { plural } from "../../lib/format";
import { workflowQuery } from "../queries";
import { marksOf } from "./diagnostics";
import { Problems } from "./diagnostics_list";
import { dropDraft, keptDraft, useDraftKept } from "./drafts";
import { EXAMPLE } from "./starter_document";
import { type EditorHandle, TextEditor } from "./text_editor";

const VALIDATE_MS = 400;
const JSON_TYPE = "application/json";
const YAML_TYPE = "application/yaml";

const route = getRouteApi("/editor");

export function EditorPage() {
  const { id } = route.useSearch();
  return id === undefined ? <Editor key="" workflowId="" deployed={EXAMPLE} /> : <Existing key={id} workflowId={id} />;
}

function Existing({ workflowId }: { workflowId: string }) {
  const workflow = useQuery(workflowQuery(workflowId));
  const version = workflow.data?.version;
  // The editor stays, with what it says of a deployment, while the document of the new version is read.
  const text = useQuery({
    ...documentQuery(workflowId, version ?? 0),
    enabled: version !== undefined,
    placeholderData: keepPreviousData,
  });
  return (
    <Loaded query={{ data: text.data, error: workflow.error ?? text.error, isPending: text.isPending }}>
      {(deployed) => <Editor workflowId={workflowId} deployed={deployed} />}
    </Loaded>
  );
}

/** `workflowId` is empty for a new one. */
function Editor({ workflowId, deployed }: { workflowId: string; deployed: string }) {
  // What is deployed elsewhere meanwhile does not change what somebody writes here.
  const [origin, setOrigin] = useState(deployed);
  const [text, setText] = useState(() => keptDraft(workflowId) ?? deployed);
  const place = useRef<EditorHandle>(null);
  useDraftKept(workflowId, text, text !== origin);
  const validation = useValidation(text);
  const deployment = useDeployment(workflowId, (sent) => setOrigin(sent));
  const marks = validation.data ? marksOf(validation.data) : [];
  const change = (next: string) => {
    setText(next);
    deployment.reset();
  };
  const discard = () => {
    dropDraft(workflowId);
    setText(origin);
    deployment.reset();
  };
  return (
    <>
      <PageHead
        title={workflowId ? `Edit ${workflowId}` : "New workflow"}
        about={<Standing validation={validation} text={text} isDraft={text !== origin} />}
        actions={
          <>
            {text !== origin && <Button onClick={discard}>Discard the draft</Button>}
            <Button
              look="main"
              disabled={deployment.isPending || validation.data?.valid === false}
              onClick={() => deployment.mutate(text)}
            >
              {deployment.isPending ? "Deploying…" : "Deploy"}
            </Button>
          </>
        }
      />
      <Deployed deployment={deployment} />
      <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-[minmax(0,1fr)_24rem]">
        <Panel className="overflow-hidden">
          <div className="h-[min(70dvh,52rem)]">
            <TextEditor
              ref={place}
              label="Workflow document"
              text={text}
              onChange={change}
              marks={marks}
              describedBy="editor-hint"
            />
          </div>
          <p id="editor-hint" className="border-t border-line px-3 py-1.5 text-xs text-muted">
            YAML or JSON. Tab indents; press Esc, then Tab, to leave the field.
          </p>
        </Panel>
        <Problems
          marks={marks}
          validation={validation}
          onPick={(mark) => place.current?.goTo(mark.line, mark.column)}
        />
      </div>
    </>
  );
}

/** What the server says of the text, once the typing rests. */
function useValidation(text: string) {
  const [rested, setRested] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setRested(text), VALIDATE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return useQuery({
    queryKey: ["validation", rested],
    queryFn: () => send<Validation>("POST", at("workflows", "validate"), rested, typeOf(rested)),
    placeholderData: (before) => before,
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

function useDeployment(workflowId: string, onDeployed: (text: string) => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: deploy,
    onSuccess: (_, text) => {
      dropDraft(workflowId);
      onDeployed(text);
      void queries.invalidateQueries({ queryKey: ["workflow"] });
      void queries.invalidateQueries({ queryKey: ["workflows"] });
    },
  });
}

/** The status alone says whether there is a new version. */
async function deploy(text: string): Promise<{ workflow: Workflow; isNew: boolean }> {
  const response = await fetch(at("workflows"), {
    method: "POST",
    headers: { "content-type": typeOf(text) },
    body: text,
  }).catch(() => {
    throw new Problem(0, "The server does not answer. Try again when it does; the draft is kept.");
  });
  if (!response.ok) {
    throw await problemOf(response);
  }
  return { workflow: (await response.json()) as Workflow, isNew: response.status === 201 };
}

function typeOf(text: string): string {
  return text.trimStart().startsWith("{") ? JSON_TYPE : YAML_TYPE;
}

function Standing({
  validation,
  text,
  isDraft,
}: {
  validation: ReturnType<typeof useValidation>;
  text: string;
  isDraft: boolean;
}) {
  const errors = validation.data?.errors?.length ?? 0;
  const said = validation.isPending
    ? "Checking…"
    : validation.error
      ? "Not checked"
      : errors > 0
        ? plural(errors, "problem")
        : "It is valid";
  return (
    <span role="status">
      {said}
      {isDraft && text !== "" && ". This draft is kept in this tab until you deploy it."}
    </span>
  );
}

function Deployed({ deployment }: { deployment: ReturnType<typeof useDeployment> }) {
  const { data, error } = deployment;
  if (error) {
    return (
      <div className="mb-4">
        <ProblemBox error={error} title="It was not deployed" />
      </div>
    );
  }
  if (!data) {
    return null;
  }
  const { workflow_id: workflowId, version } = data.workflow;
  return (
    <p role="status" className="mb-4 rounded-md border border-completed/40 bg-completed/5 px-4 py-3">
      {data.isNew
        ? `Deployed ${workflowId} as version ${version}. `
        : `Nothing changed: version ${version} says the same. `}
      <Link to="/workflows/$workflowId" params={{ workflowId }} className={textLink}>
        See it
      </Link>{" "}
      or{" "}
      <Link to="/workflows/$workflowId" params={{ workflowId }} search={{ tab: "run" }} className={textLink}>
        run it
      </Link>
      .
    </p>
  );
}
