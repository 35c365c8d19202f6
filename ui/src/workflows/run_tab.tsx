// Runs a workflow: a form based on the input schema, or JSON.

import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type FormEvent, useRef, useState } from "react";
import { ApiError, apiPath, send } from "../api/client";
import { versionQuery } from "../api/queries";
import type { Json, Workflow } from "../api/types";
import { Button, Panel } from "../components/controls";
import { ErrorAlert, QueryResult } from "../components/query_result";
import { pluralize } from "../lib/format";
import { parseJsonObject } from "../lib/json_object";
import { AdvancedOptions } from "./form/advanced_options";
import { Group } from "./form/fields";
import { type FieldError, type FormValue, groupByField, initialValue, toFormValue, toJson } from "./form/form_values";
import { formFromSchema, type GroupField } from "./form/schema_form";
import { NO_OPTIONS, submitBody, validateOptions } from "./form/submission";
import { defaultAlias, VersionSelect, versionNumber } from "./version_select";

const route = getRouteApi("/workflows/$workflowId");

export function RunTab({ workflow }: { workflow: Workflow }) {
  const { version } = route.useSearch();
  const number = versionNumber(workflow, version ?? defaultAlias(workflow));
  const target = useQuery(versionQuery(workflow.workflow_id, number));
  return (
    <Panel title="Run" actions={<VersionSelect workflow={workflow} withAliases />} className="mx-auto max-w-3xl">
      <div className="px-4 py-4">
        <QueryResult query={target}>
          {(loaded) => (
            <RunForm
              key={number}
              workflowId={workflow.workflow_id}
              version={version}
              schema={loaded.definition.input}
            />
          )}
        </QueryResult>
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
  const formElement = useRef<HTMLFormElement>(null);
  const navigate = route.useNavigate();
  const input = useInput(schema);
  const [options, setOptions] = useState(NO_OPTIONS);
  const [errors, setErrors] = useState<FieldError[]>([]);
  const start = useMutation({
    mutationFn: (body: Json) => send<{ job_id: string }>("POST", apiPath("jobs"), body),
    onSuccess: ({ job_id }) => navigate({ to: "/jobs/$jobId", params: { jobId: job_id }, search: {} }),
    onError: (error) => showErrors(error instanceof ApiError ? error.errors : []),
  });
  const showErrors = (found: FieldError[]) => {
    setErrors(found);
    // After the fields are rendered with their errors.
    requestAnimationFrame(() => formElement.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const entered = input.read();
    const found = [...entered.errors, ...validateOptions(options)];
    start.reset();
    showErrors(found);
    if (found.length === 0) {
      start.mutate(submitBody(workflowId, version, entered.value, options));
    }
  };
  return (
    <form ref={formElement} noValidate onSubmit={submit} className="space-y-5">
      <InputFields input={input} errors={groupByField(errors)} />
      <AdvancedOptions value={options} onChange={setOptions} errors={groupByField(errors)} />
      {start.error && <ErrorAlert error={start.error} title="Start failed" />}
      <div className="flex items-center gap-3">
        <Button type="submit" variant="primary" disabled={start.isPending || start.isSuccess}>
          {start.isPending ? "Starting…" : "Run"}
        </Button>
        {errors.length > 0 && !start.error && (
          <p role="status" className="text-failed">
            {pluralize(errors.length, "invalid field")}
          </p>
        )}
      </div>
    </form>
  );
}

type Input = ReturnType<typeof useInput>;

/** The input, in fields or as JSON text, converted when the user switches. */
function useInput(schema: { [key: string]: Json } | undefined) {
  const [form] = useState(() => formFromSchema(schema));
  const [formValue, setFormValue] = useState<FormValue>(() => (form ? initialValue(form) : {}));
  const [text, setText] = useState<string | null>(form ? null : "{}");
  const [switchError, setSwitchError] = useState<string | null>(null);
  const read = (): { value: Json; errors: FieldError[] } => {
    if (text === null) {
      const result = toJson(form as GroupField, formValue);
      return { value: result.value ?? {}, errors: result.errors };
    }
    const parsed = parseJsonObject(text);
    return "value" in parsed
      ? { value: parsed.value, errors: [] }
      : { value: {}, errors: [{ path: "", message: parsed.error }] };
  };
  const toText = () => {
    setSwitchError(null);
    setText(JSON.stringify(read().value, null, 2));
  };
  const toFields = () => {
    const parsed = parseJsonObject(text ?? "");
    const fields = "value" in parsed && form ? toFormValue(form, parsed.value) : null;
    if (fields === null) {
      setSwitchError("error" in parsed ? parsed.error : "The form cannot show this input. Keep editing JSON.");
    } else {
      setSwitchError(null);
      setFormValue(fields);
      setText(null);
    }
  };
  return { form, formValue, setFormValue, text, setText, switchError, read, toText, toFields };
}

function InputFields({ input, errors }: { input: Input; errors: ReadonlyMap<string, string[]> }) {
  return (
    <div>
      <div className="mb-3 flex items-center justify-between gap-2">
        <h3 className="font-medium">Input</h3>
        {input.form && (
          <Button onClick={input.text === null ? input.toText : input.toFields}>
            {input.text === null ? "Edit JSON" : "Use form"}
          </Button>
        )}
      </div>
      {input.text === null && input.form ? (
        <Group field={input.form} path="" value={input.formValue} onChange={input.setFormValue} errors={errors} />
      ) : (
        <JsonInput input={input} errors={errors.get("")} />
      )}
      {input.text === null && errors.has("") && <p className="mt-2 text-failed">{errors.get("")?.join("; ")}</p>}
      {input.switchError && (
        <p role="status" className="mt-2 text-failed">
          {input.switchError}
        </p>
      )}
    </div>
  );
}

function JsonInput({ input, errors }: { input: Input; errors: string[] | undefined }) {
  return (
    <>
      {!input.form && <p className="mb-2 text-muted">No input schema: any JSON object</p>}
      <textarea
        aria-label="Input as JSON"
        aria-invalid={errors !== undefined}
        aria-describedby={errors ? "json-errors" : undefined}
        spellCheck={false}
        rows={Math.min(24, Math.max(6, (input.text ?? "").split("\n").length + 1))}
        className="w-full rounded-md border border-line bg-surface p-2.5 font-mono text-xs leading-5 aria-invalid:border-failed"
        value={input.text ?? ""}
        onChange={(event) => input.setText(event.target.value)}
      />
      {errors && (
        <p id="json-errors" className="text-xs font-medium text-failed">
          {errors.join("; ")}
        </p>
      )}
    </>
  );
}
