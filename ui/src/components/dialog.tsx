// A modal dialog. The native element traps the focus and closes on Escape.

import { type ReactNode, useEffect, useId, useRef } from "react";
import { Button } from "./controls";

export function Dialog({ title, onClose, children }: { title: string; onClose(): void; children: ReactNode }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onClose={onClose}
      className="m-auto max-h-[85dvh] w-[min(44rem,calc(100vw-2rem))] overflow-auto rounded-xl border border-line bg-surface p-0 text-ink shadow-2xl backdrop:bg-black/40"
    >
      <div className="flex items-center justify-between gap-4 border-b border-line px-5 py-3">
        <h2 id={id} className="text-lg font-semibold">
          {title}
        </h2>
        <Button variant="ghost" aria-label="Close" onClick={() => dialog.current?.close()}>
          ✕
        </Button>
      </div>
      <div className="p-5">{children}</div>
    </dialog>
  );
}
