import type { RefObject } from "preact";
import { useRef, useState } from "preact/hooks";
import { countLabel } from "../shared/labels.ts";
import { Columns } from "./columns.tsx";
import { Field } from "./field.tsx";
import { SAMPLE } from "./sample.ts";

const MAX_FILE_MB = 50;
/** Browsers take minutes to insert thousands of lines into a text area. */
const MAX_INSERTED_CHARACTERS = 20_000;

export type Options = { block: string; apiKey: string };

/** Reads the options. The key is kept in its field only. */
export const readOptions = (form: HTMLFormElement): Options => {
  const data = new FormData(form);
  return { block: String(data.get("block")).trim(), apiKey: String(data.get("apiKey")).trim() };
};

type ListFormProps = {
  form: RefObject<HTMLFormElement | null>;
  errors: Partial<Record<keyof Options, string | null>>;
  isRunning: boolean;
  onSubmit: (text: string) => void;
};

export const ListForm = ({ form, errors, isRunning, onSubmit }: ListFormProps) => {
  const list = useRef<HTMLTextAreaElement>(null);
  /** A list that is not in the text area. */
  const [file, setFile] = useState<{ name: string; text: string } | null>(null);
  const [fileError, setFileError] = useState<string | null>(null);

  const readFile = async (chosen: File | undefined) => {
    if (!chosen) return;
    const isTooLarge = chosen.size > MAX_FILE_MB * 1e6;
    setFileError(isTooLarge ? `${chosen.name} is larger than ${MAX_FILE_MB} MB.` : null);
    if (!isTooLarge) setFile({ name: chosen.name, text: await chosen.text() });
  };
  const paste = (event: ClipboardEvent) => {
    const pasted = event.clipboardData?.getData("text/plain") ?? "";
    if (pasted.length <= MAX_INSERTED_CHARACTERS || !list.current) return;
    event.preventDefault();
    const { value, selectionStart, selectionEnd } = list.current;
    setFile({ name: "Pasted list", text: `${value.slice(0, selectionStart)}${pasted}${value.slice(selectionEnd)}` });
  };
  const trySample = () => {
    setFile(null);
    setFileError(null);
    if (list.current) list.current.value = SAMPLE;
    onSubmit(SAMPLE);
  };

  return (
    <form
      ref={form}
      class="card list-form"
      noValidate
      aria-label="List of checks"
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit(file?.text ?? list.current?.value ?? "");
      }}
      onDragOver={(event) => hasFile(event) && event.preventDefault()}
      onDrop={(event) => {
        if (!hasFile(event)) return;
        event.preventDefault();
        void readFile(event.dataTransfer?.files[0]);
      }}
    >
      <Field name="list" label="List" error={fileError} hint="CSV. The first line names the columns.">
        {file && (
          <p class="chosen-file">
            {file.name}, {countLabel(file.text.trimEnd().split("\n").length, "line", "lines")}
            <button type="button" class="button" onClick={() => setFile(null)}>
              Remove
            </button>
          </p>
        )}
        <textarea
          ref={list}
          id="list"
          class="mono"
          hidden={file !== null}
          rows={8}
          wrap="off"
          placeholder={SAMPLE}
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          aria-describedby="list-hint"
          onPaste={paste}
        />
      </Field>
      <div class="list-actions">
        <label class="button file-button">
          Choose a file, or drop it here
          <input
            type="file"
            accept=".csv,.tsv,.txt,text/csv,text/plain"
            onChange={({ currentTarget }) => {
              void readFile(currentTarget.files?.[0]);
              // Allows the same file to be chosen again, after a change.
              currentTarget.value = "";
            }}
          />
        </label>
        <button type="button" class="button" disabled={isRunning} onClick={trySample}>
          Try the sample
        </button>
      </div>
      <Columns />
      <div class="options">
        <Field name="block" label="Past block" error={errors.block} hint="Optional: a number, or finalized">
          <input
            id="block"
            name="block"
            autocomplete="off"
            aria-invalid={Boolean(errors.block)}
            aria-describedby="block-hint"
          />
        </Field>
        <Field name="apiKey" label="API key" error={errors.apiKey} hint="Optional: lifts the limit. It is not stored.">
          <input
            id="apiKey"
            name="apiKey"
            type="password"
            autocomplete="off"
            aria-invalid={Boolean(errors.apiKey)}
            aria-describedby="apiKey-hint"
          />
        </Field>
      </div>
      <button type="submit" class="button primary" disabled={isRunning}>
        Check the list
      </button>
    </form>
  );
};

/** Text can be dropped too: browsers insert it. */
const hasFile = ({ dataTransfer }: DragEvent): boolean => dataTransfer?.types.includes("Files") ?? false;
