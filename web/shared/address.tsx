import { useState } from "preact/hooks";

/** 0x and the start and end of it: enough to recognise one by. */
export const shorten = (hex: string): string => (hex.length <= 16 ? hex : `${hex.slice(0, 6)}…${hex.slice(-4)}`);

type AddressProps = {
  value: string;
  /** Where it leads. */
  href?: string | undefined;
  /** What it is, for ears: "wallet", "contract". */
  what?: string;
  /** Shown whole where there is room. */
  whole?: boolean;
};

/** An address: shortened for eyes, whole for ears and for the clipboard. */
export const Address = ({ value, href, what = "address", whole = false }: AddressProps) => {
  const text = (
    <>
      <span aria-hidden="true" title={value}>
        {whole ? value : shorten(value)}
      </span>
      <span class="unseen">{value}</span>
    </>
  );
  return (
    <span class={whole ? "address whole" : "address"}>
      {href ? <a href={href}>{text}</a> : text}
      <CopyButton text={value} what={what} />
    </span>
  );
};

/** Copies a text, and says so. */
export const CopyButton = ({ text, what }: { text: string; what: string }) => {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await copyText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <button
      type="button"
      class="copy-icon"
      data-copied={isCopied || undefined}
      aria-label={isCopied ? "Copied" : `Copy ${what} ${shorten(text)}`}
      title={isCopied ? "Copied" : `Copy ${what}`}
      onClick={copy}
    >
      <svg viewBox="0 0 24 24" aria-hidden="true">
        {isCopied ? <path d="m5 12.5 4.5 4.5L19 7.5" /> : <path d="M9 9h10v11H9zM15 9V4H5v11h4" />}
      </svg>
    </button>
  );
};

/** Without https there is no clipboard to write to: then by the old way. */
const copyText = async (text: string): Promise<void> => {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
};
