// A text editor with line numbers, syntax highlighting, diagnostics and indentation.

import { type KeyboardEvent, memo, type Ref, useEffect, useImperativeHandle, useMemo, useRef } from "react";
import { type Diagnostic, groupByLine, underlineLength } from "./diagnostics";
import { type Token, type TokenKind, tokenize } from "./highlight";
import { indent, newLine, offsetOf, outdent, type TextEdit } from "./indent";

// Highlighting longer texts with every key press would be slow.
const HIGHLIGHT_LENGTH_MAX = 200_000;
const CACHE_LINES_MAX = 20_000;
const LINE_HEIGHT = 20;
const PADDING_TOP = 8;

const TOKEN_CLASSES: Record<TokenKind, string> = {
  plain: "",
  comment: "italic text-muted",
  key: "text-running",
  string: "text-completed",
  template: "text-cancelled",
  literal: "text-waiting",
  punctuation: "text-muted",
};
const TEXT_CLASS = "whitespace-pre py-2 pl-3 pr-6 font-mono text-[13px] leading-5 [tab-size:2]";

export interface EditorHandle {
  /** Move the cursor to a line and column, both from 1. */
  goTo(line: number, column: number): void;
}

interface TextEditorProps {
  ref?: Ref<EditorHandle>;
  label: string;
  text: string;
  onChange(text: string): void;
  diagnostics: readonly Diagnostic[];
  describedBy: string;
}

export function TextEditor({ ref, label, text, onChange, diagnostics, describedBy }: TextEditorProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const onKeyDown = useEditorKeys();
  useImperativeHandle(ref, () => ({
    goTo(line, column) {
      const offset = offsetOf(field.current?.value ?? "", line, column);
      field.current?.focus({ preventScroll: true });
      field.current?.setSelectionRange(offset, offset);
      scroller.current?.scrollTo({ top: (line - 1) * LINE_HEIGHT - scroller.current.clientHeight / 3, left: 0 });
    },
  }));
  useEffect(
    () =>
      field.current?.setCustomValidity(
        diagnostics.some((diagnostic) => diagnostic.isError) ? "The document has errors" : "",
      ),
    [diagnostics],
  );
  const lines = useMemo(() => groupByLine(diagnostics), [diagnostics]);
  const count = useMemo(() => text.split("\n").length, [text]);
  return (
    // The outline is inset, because the line numbers would cover it.
    <div className="h-full bg-surface p-0.5 focus-within:outline-2 focus-within:-outline-offset-2 focus-within:outline-accent">
      <div ref={scroller} className="flex h-full overflow-auto">
        <Gutter count={count} lines={lines} />
        <div className="relative min-w-max flex-1">
          <HighlightLayer text={text} lines={lines} />
          <textarea
            ref={field}
            aria-label={label}
            aria-describedby={describedBy}
            aria-invalid={diagnostics.some((diagnostic) => diagnostic.isError)}
            spellCheck={false}
            autoCapitalize="off"
            autoComplete="off"
            wrap="off"
            value={text}
            onChange={(event) => onChange(event.target.value)}
            onKeyDown={onKeyDown}
            className={`absolute inset-0 size-full resize-none overflow-hidden bg-transparent caret-ink outline-none selection:bg-accent/25 ${isHighlighted(text) ? "text-transparent" : ""} ${TEXT_CLASS}`}
          />
        </div>
      </div>
    </div>
  );
}

/** Tab indents unless Escape was pressed before; Enter keeps the indentation. */
function useEditorKeys() {
  const leaving = useRef(false);
  return (event: KeyboardEvent<HTMLTextAreaElement>) => {
    const field = event.currentTarget;
    const { value, selectionStart: start, selectionEnd: end } = field;
    const isLeaving = leaving.current;
    leaving.current = event.key === "Escape" || (isLeaving && event.key === "Shift");
    if (event.ctrlKey || event.metaKey || event.altKey || event.nativeEvent.isComposing) {
      return;
    }
    if (event.key === "Tab" && !isLeaving) {
      event.preventDefault();
      applyEdit(field, event.shiftKey ? outdent(value, start, end) : indent(value, start, end));
    } else if (event.key === "Enter") {
      event.preventDefault();
      applyEdit(field, newLine(value, start, end));
    }
  };
}

/** Apply an edit as user input, so that the browser can undo it. */
function applyEdit(field: HTMLTextAreaElement, edit: TextEdit): void {
  field.setSelectionRange(edit.from, edit.to);
  const command = edit.insert === "" ? "delete" : "insertText";
  if (field.value.slice(edit.from, edit.to) !== edit.insert && !document.execCommand(command, false, edit.insert)) {
    field.setRangeText(edit.insert);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  field.setSelectionRange(edit.start, edit.end);
}

/** Line numbers with markers at diagnostics. */
const Gutter = memo(function Gutter({ count, lines }: { count: number; lines: ReadonlyMap<number, Diagnostic[]> }) {
  const numbers = Array.from({ length: count }, (_, index) => index + 1).join("\n");
  return (
    <div
      aria-hidden="true"
      className="sticky left-0 z-10 shrink-0 select-none border-r border-line bg-sunken text-muted"
    >
      <pre className="min-h-full py-2 pl-5 pr-2 text-right font-mono text-[13px] leading-5">{numbers}</pre>
      {[...lines].map(([line, diagnostics]) => (
        <span
          key={line}
          title={diagnostics[0]?.message}
          className={`absolute left-1.5 font-mono text-[13px] font-bold leading-5 ${hasError(diagnostics) ? "text-failed" : "text-waiting"}`}
          style={{ top: lineTop(line) }}
        >
          {hasError(diagnostics) ? "✕" : "!"}
        </span>
      ))}
    </div>
  );
});

/** The tokenize text behind the textarea, which also sets its size. */
const HighlightLayer = memo(function HighlightLayer({
  text,
  lines,
}: {
  text: string;
  lines: ReadonlyMap<number, Diagnostic[]>;
}) {
  const cache = useRef(new Map<string, Token[]>());
  const tokens = useMemo(() => {
    if (cache.current.size > CACHE_LINES_MAX) {
      cache.current.clear();
    }
    return isHighlighted(text) ? tokenize(text, cache.current) : null;
  }, [text]);
  const rows = useMemo(() => text.split("\n"), [text]);
  return (
    <pre aria-hidden="true" className={`pointer-events-none min-h-full ${TEXT_CLASS}`}>
      {tokens === null ? (
        <span className="block" style={sizeOf(rows)} />
      ) : (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines are identified by number
        tokens.map((line, index) => <HighlightedLine key={index} tokens={line} />)
      )}
      {[...lines.values()].flat().map((diagnostic) => (
        <span
          key={`${diagnostic.line} ${diagnostic.column} ${diagnostic.message}`}
          className={`absolute h-0.5 ${diagnostic.isError ? "bg-failed" : "bg-waiting"}`}
          style={{
            top: lineTop(diagnostic.line) + LINE_HEIGHT - 2,
            left: `calc(0.75rem + ${diagnostic.column - 1}ch)`,
            width: `${underlineLength(rows[diagnostic.line - 1] ?? "", diagnostic.column)}ch`,
          }}
        />
      ))}
    </pre>
  );
});

const HighlightedLine = memo(function HighlightedLine({ tokens }: { tokens: Token[] }) {
  return (
    <div className="min-h-5">
      {tokens.map((token, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: tokens are identified by position
        <span key={index} className={TOKEN_CLASSES[token.kind]}>
          {token.text}
        </span>
      ))}
    </div>
  );
});

/** The size of a text without highlighting, which avoids a second layout. */
function sizeOf(rows: string[]): { width: string; height: number } {
  const longest = rows.reduce((length, row) => Math.max(length, row.length), 0);
  return { width: `${longest}ch`, height: rows.length * LINE_HEIGHT };
}

function isHighlighted(text: string): boolean {
  return text.length <= HIGHLIGHT_LENGTH_MAX;
}

function hasError(diagnostics: Diagnostic[]): boolean {
  return diagnostics.some((diagnostic) => diagnostic.isError);
}

function lineTop(line: number): number {
  return (line - 1) * LINE_HEIGHT + PADDING_TOP;
}
