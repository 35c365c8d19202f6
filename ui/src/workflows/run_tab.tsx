// Runs a workflow: a form made of its input's schema, or JSON as it is.

import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type FormEvent, useRef, useState } from "react";
import { at, Problem, send } from "../api/client";
import { versionQuery } from "../api/queries";
import type { Json, Workflow } from "../api/types";
import { Button, Panel } from "../components/controls";
import { Loaded, ProblemBox } from "../components/query_result";
import { objectOf } from "../lib/json_object";
import { AdvancedFold } from "./form/advanced_options";
import { Group } from "./form/fields";
import { byField, type Draft, draftOf, initial, jsonOf, type Wrong } from "./form/form_values";
import { formOf, type GroupField } from "./form/schema_form";
import { NO_EXTRAS, submissionOf, wrongExtras } from "./form/submission";
import { numberOf, VersionChoice } from "./version_select";

const route = getRouteApi("/workflows/$workflowId");

export function RunTab({ workflow }: { workflow: Workflow }) {
  const { version } = route.useSearch();
  const number = numberOf(workflow, version);
  const meant = useQuery(versionQuery(workflow.workflow_id, number));
  return (
    <Panel title="Run" actions={<VersionChoice workflow={workflow} withAliases />} className="mx-auto max-w-3xl">
      <div className="px-4 py-4">
        <Loaded query={meant}>
          {(found) => (
            <RunForm key={number} workflowId={workflow.workflow_id} version={version} schema={found.definition.input} />
          )}
        </Loaded>
      </div>
    </Panel>
  );
}

interface RunFormProps {
  workflowId: string;
  version: string | undefined;
  schema: { [key: string]: Json } | undefined;
}

function RunForm({ workflowId, version, schema }: RunFormProps) {
  const place = useRef<HTMLFormElement>(null);
  const navigate = route.useNavigate();
  const input = useInput(schema);
  const [extras, setExtras] = useState(NO_EXTRAS);
  const [wrong, setWrong] = useState<Wrong[]>([]);
  const start = useMutation({
    mutationFn: (body: Json) => send<{ job_id: string }>("POST", at("jobs"), body),
    onSuccess: ({ job_id }) => navigate({ to: "/jobs/$jobId", params: { jobId: job_id }, search: {} }),
    onError: (error) => showAt(error instanceof Problem ? error.errors : []),
  });
  const showAt = (found: Wrong[]) => {
    setWrong(found);
    // Once the fields say what is wrong with them.
    requestAnimationFrame(() => place.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const given = input.read();
    const found = [...given.wrong, ...wrongExtras(extras)];
    start.reset();
    showAt(found);
    if (found.length === 0) {
      start.mutate(submissionOf(workflowId, version, given.value, extras));
    }
  };
  return (
    <form ref={place} noValidate onSubmit={submit} className="space-y-5">
      <InputFields input={input} wrong={byField(wrong)} />
      <AdvancedFold extras={extras} onChange={setExtras} wrong={byField(wrong)} />
      {start.error && <ProblemBox error={start.error} title="It was not started" />}
      <div className="flex items-center gap-3">
        <Button type="submit" look="main" disabled={start.isPending || start.isSuccess}>
          {start.isPending ? "Starting…" : "Run"}
        </Button>
        {wrong.length > 0 && !start.error && (
          <p role="status" className="text-failed">
            {wrong.length === 1 ? "One field needs another look." : `${wrong.length} fields need another look.`}
          </p>
        )}
      </div>
    </form>
  );
}

type Input = ReturnType<typeof useInput>;

/** What was filled in, in fields or as JSON; one becomes the other when somebody switches. */
function useInput(schema: { [key: string]: Json } | undefined) {
  const [form] = useState(() => formOf(schema));
  const [draft, setDraft] = useState<Draft>(() => (form ? initial(form) : {}));
  const [text, setText] = useState<string | null>(form ? null : "{}");
  const [refusal, setRefusal] = useState<string | null>(null);
  const read = (): { value: Json; wrong: Wrong[] } => {
    if (text === null) {
      const made = jsonOf(form as GroupField, draft);
      return { value: made.value ?? {}, wrong: made.wrong };
    }
    const made = objectOf(text);
    return "value" in made
      ? { value: made.value, wrong: [] }
      : { value: {}, wrong: [{ path: "", message: made.problem }] };
  };
  const toText = () => {
    setRefusal(null);
    setText(JSON.stringify(read().value, null, 2));
  };
  const toFields = () => {
    const made = objectOf(text ?? "");
    const shown = "value" in made && form ? draftOf(form, made.value) : null;
    if (shown === null) {
      setRefusal("problem" in made ? made.problem : "The fields can not show this input; go on with JSON.");
    } else {
      setRefusal(null);
      setDraft(shown);
      setText(null);
    }
  };
  return { form, draft, setDraft, text, setText, refusal, read, toText, toFields };
}

function InputFields({ input, wrong }: { input: Input; wrong: ReadonlyMap<string, string[]> }) {
  return (
    <div>
      <div className="mb-3 flex items-center justify-between gap-2">
        <h3 className="font-medium">Input</h3>
        {input.form && (
          <Button onClick={input.text === null ? input.toText : input.toFields}>
            {input.text === null ? "Write JSON" : "Use the fields"}
          </Button>
        )}
      </div>
      {input.text === null && input.form ? (
        <Group field={input.form} path="" draft={input.draft} onChange={input.setDraft} wrong={wrong} />
      ) : (
        <JsonInput input={input} problems={wrong.get("")} />
      )}
      {input.text === null && wrong.has("") && <p className="mt-2 text-failed">{wrong.get("")?.join("; ")}</p>}
      {input.refusal && (
        <p role="status" className="mt-2 text-failed">
          {input.refusal}
        </p>
      )}
    </div>
  );
}

function JsonInput({ input, problems }: { input: Input; problems: string[] | undefined }) {
  return (
    <>
      {!input.form && <p className="mb-2 text-muted">This workflow declares no input: any JSON object will do.</p>}
      <textarea
        aria-label="Input as JSON"
        aria-invalid={problems !== undefined}
        aria-describedby={problems ? "json-wrong" : undefined}
        spellCheck={false}
        rows={Math.min(24, Math.max(6, (input.text ?? "").split("\n").length + 1))}
        className="w-full rounded-md border border-line bg-surface p-2.5 font-mono text-xs leading-5 aria-invalid:border-failed"
        value={input.text ?? ""}
        onChange={(event) => input.setText(event.target.value)}
      />
      {problems && (
        <p id="json-wrong" className="text-xs font-medium text-failed">
          {problems.join("; ")}
        </p>
      )}
    </>
  );
}
