// A text field for documents: line numbers, colours and marks behind it, and keys that know about indentation.

import { type KeyboardEvent, memo, type Ref, useEffect, useImperativeHandle, useMemo, useRef } from "react";
import { byLine, lengthOf, type Mark } from "./diagnostics";
import { highlighted, type Piece, type Word } from "./highlight";
import { indent, newLine, outdent, placeOf, type TextEdit } from "./indent";

// Longer ones are shown in one colour: every key press would take too long.
const COLOURED_LENGTH_MAX = 200_000;
const LINES_KNOWN_MAX = 20_000;
const LINE_HEIGHT = 20;
const PADDING_TOP = 8;

const COLOURS: Record<Word, string> = {
  plain: "",
  comment: "italic text-muted",
  key: "text-running",
  string: "text-completed",
  template: "text-cancelled",
  literal: "text-waiting",
  sign: "text-muted",
};
const TEXT = "whitespace-pre py-2 pl-3 pr-6 font-mono text-[13px] leading-5 [tab-size:2]";

export interface EditorHandle {
  /** Puts the caret at a place, lines and columns from 1, and shows it. */
  goTo(line: number, column: number): void;
}

interface TextEditorProps {
  ref?: Ref<EditorHandle>;
  label: string;
  text: string;
  onChange(text: string): void;
  marks: readonly Mark[];
  describedBy: string;
}

export function TextEditor({ ref, label, text, onChange, marks, describedBy }: TextEditorProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const onKeyDown = useEditingKeys();
  useImperativeHandle(ref, () => ({
    goTo(line, column) {
      const place = placeOf(field.current?.value ?? "", line, column);
      field.current?.focus({ preventScroll: true });
      field.current?.setSelectionRange(place, place);
      scroller.current?.scrollTo({ top: (line - 1) * LINE_HEIGHT - scroller.current.clientHeight / 3, left: 0 });
    },
  }));
  useEffect(() => field.current?.setCustomValidity(marks.some((mark) => mark.grave) ? "It has problems" : ""), [marks]);
  const lines = useMemo(() => byLine(marks), [marks]);
  const count = useMemo(() => text.split("\n").length, [text]);
  return (
    // A rim of its own for the focus, which the line numbers would cover.
    <div className="h-full bg-surface p-0.5 focus-within:outline-2 focus-within:-outline-offset-2 focus-within:outline-accent">
      <div ref={scroller} className="flex h-full overflow-auto">
        <Gutter count={count} lines={lines} />
        <div className="relative min-w-max flex-1">
          <Layer text={text} lines={lines} />
          <textarea
            ref={field}
            aria-label={label}
            aria-describedby={describedBy}
            aria-invalid={marks.some((mark) => mark.grave)}
            spellCheck={false}
            autoCapitalize="off"
            autoComplete="off"
            wrap="off"
            value={text}
            onChange={(event) => onChange(event.target.value)}
            onKeyDown={onKeyDown}
            className={`absolute inset-0 size-full resize-none overflow-hidden bg-transparent caret-ink outline-none selection:bg-accent/25 ${isColoured(text) ? "text-transparent" : ""} ${TEXT}`}
          />
        </div>
      </div>
    </div>
  );
}

/** Tab indents, unless Escape was pressed just before; Enter keeps the depth. */
function useEditingKeys() {
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
      apply(field, event.shiftKey ? outdent(value, start, end) : indent(value, start, end));
    } else if (event.key === "Enter") {
      event.preventDefault();
      apply(field, newLine(value, start, end));
    }
  };
}

/** As if it had been typed, so that the browser can undo it. */
function apply(field: HTMLTextAreaElement, edit: TextEdit): void {
  field.setSelectionRange(edit.from, edit.to);
  const command = edit.insert === "" ? "delete" : "insertText";
  if (field.value.slice(edit.from, edit.to) !== edit.insert && !document.execCommand(command, false, edit.insert)) {
    field.setRangeText(edit.insert);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  field.setSelectionRange(edit.start, edit.end);
}

/** The numbers of the lines, and a sign at those that have problems. */
const Gutter = memo(function Gutter({ count, lines }: { count: number; lines: ReadonlyMap<number, Mark[]> }) {
  const numbers = Array.from({ length: count }, (_, place) => place + 1).join("\n");
  return (
    <div
      aria-hidden="true"
      className="sticky left-0 z-10 shrink-0 select-none border-r border-line bg-sunken text-muted"
    >
      <pre className="min-h-full py-2 pl-5 pr-2 text-right font-mono text-[13px] leading-5">{numbers}</pre>
      {[...lines].map(([line, marks]) => (
        <span
          key={line}
          title={marks[0]?.message}
          className={`absolute left-1.5 font-mono text-[13px] font-bold leading-5 ${isGrave(marks) ? "text-failed" : "text-waiting"}`}
          style={{ top: topOf(line) }}
        >
          {isGrave(marks) ? "✕" : "!"}
        </span>
      ))}
    </div>
  );
});

/** The same text in colours, behind the field; it gives the field its size. */
const Layer = memo(function Layer({ text, lines }: { text: string; lines: ReadonlyMap<number, Mark[]> }) {
  const known = useRef(new Map<string, Piece[]>());
  const pieces = useMemo(() => {
    if (known.current.size > LINES_KNOWN_MAX) {
      known.current.clear();
    }
    return isColoured(text) ? highlighted(text, known.current) : null;
  }, [text]);
  const rows = useMemo(() => text.split("\n"), [text]);
  return (
    <pre aria-hidden="true" className={`pointer-events-none min-h-full ${TEXT}`}>
      {pieces === null ? (
        <span className="block" style={sizeOf(rows)} />
      ) : (
        // biome-ignore lint/suspicious/noArrayIndexKey: a line is its number
        pieces.map((line, place) => <LineOf key={place} pieces={line} />)
      )}
      {[...lines.values()].flat().map((mark) => (
        <span
          key={`${mark.line} ${mark.column} ${mark.message}`}
          className={`absolute h-0.5 ${mark.grave ? "bg-failed" : "bg-waiting"}`}
          style={{
            top: topOf(mark.line) + LINE_HEIGHT - 2,
            left: `calc(0.75rem + ${mark.column - 1}ch)`,
            width: `${lengthOf(rows[mark.line - 1] ?? "", mark.column)}ch`,
          }}
        />
      ))}
    </pre>
  );
});

const LineOf = memo(function LineOf({ pieces }: { pieces: Piece[] }) {
  return (
    <div className="min-h-5">
      {pieces.map((piece, order) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a piece is its place in the line
        <span key={order} className={COLOURS[piece.kind]}>
          {piece.text}
        </span>
      ))}
    </div>
  );
});

/** What a long text takes; to lay it out twice would be slow. */
function sizeOf(rows: string[]): { width: string; height: number } {
  const longest = rows.reduce((most, row) => Math.max(most, row.length), 0);
  return { width: `${longest}ch`, height: rows.length * LINE_HEIGHT };
}

function isColoured(text: string): boolean {
  return text.length <= COLOURED_LENGTH_MAX;
}

function isGrave(marks: Mark[]): boolean {
  return marks.some((mark) => mark.grave);
}

function topOf(line: number): number {
  return (line - 1) * LINE_HEIGHT + PADDING_TOP;
}
