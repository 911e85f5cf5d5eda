import type { ComponentChildren } from "preact";

type FieldProps = {
  name: string;
  label: string;
  error?: string | null | undefined;
  hint: string;
  children: ComponentChildren;
};

/** A control with its label, and its error in place of its hint. */
export const Field = ({ name, label, error, hint, children }: FieldProps) => (
  <div class="field">
    <label for={name}>{label}</label>
    {children}
    <p id={`${name}-hint`} class={error ? "error" : "hint"}>
      {error ?? hint}
    </p>
  </div>
);
