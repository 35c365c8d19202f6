// A search field that asks once the typing rests, and follows the address when that changes by itself.

import { useEffect, useRef, useState } from "react";
import { Field } from "./controls";

const TYPING_MS = 250;

export function SearchField({
  label,
  placeholder,
  value,
  onSearch,
  maxLength = 128,
  className = "w-72 max-w-full",
}: {
  label: string;
  placeholder?: string;
  value: string;
  onSearch(search: string): void;
  maxLength?: number;
  className?: string;
}) {
  const [typed, setTyped] = useState(value);
  const asked = useRef(value);
  useEffect(() => {
    // What was asked for here comes back as the value; meanwhile more may have been typed.
    if (value !== asked.current) {
      asked.current = value;
      setTyped(value);
    }
  }, [value]);
  useEffect(() => {
    if (typed.trim() === asked.current) {
      return;
    }
    const timer = setTimeout(() => {
      asked.current = typed.trim();
      onSearch(asked.current);
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed, onSearch]);
  return (
    <Field
      label={label}
      hidden
      type="search"
      data-search
      className={className}
      maxLength={maxLength}
      placeholder={placeholder}
      value={typed}
      onChange={(event) => setTyped(event.target.value)}
    />
  );
}
