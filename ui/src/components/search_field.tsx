// A debounced search field that follows its value when the URL changes.

import { useEffect, useRef, useState } from "react";
import { Field } from "./controls";

const DEBOUNCE_MS = 250;

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
  const [text, setText] = useState(value);
  const submitted = useRef(value);
  useEffect(() => {
    // The submitted text returns as the value; the user may have typed more since.
    if (value !== submitted.current) {
      submitted.current = value;
      setText(value);
    }
  }, [value]);
  useEffect(() => {
    if (text.trim() === submitted.current) {
      return;
    }
    const timer = setTimeout(() => {
      submitted.current = text.trim();
      onSearch(submitted.current);
    }, DEBOUNCE_MS);
    return () => clearTimeout(timer);
  }, [text, onSearch]);
  return (
    <Field
      label={label}
      hideLabel
      type="search"
      data-search
      className={className}
      maxLength={maxLength}
      placeholder={placeholder}
      value={text}
      onChange={(event) => setText(event.target.value)}
    />
  );
}
