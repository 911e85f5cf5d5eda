import { useState } from "preact/hooks";

/** Shortens to `0x1234…abcd`, enough to recognise it. */
export const shortenHex = (hex: string): string => (hex.length <= 16 ? hex : `${hex.slice(0, 6)}…${hex.slice(-4)}`);

type AddressProps = {
  value: string;
  href?: string | undefined;
  /** Names it for screen readers: "wallet", "contract". */
  what?: string;
  /** Shows all of it where the screen is wide enough. */
  isWhole?: boolean;
};

/** An address: shortened on screen, complete for screen readers and the clipboard. */
export const Address = ({ value, href, what = "address", isWhole = false }: AddressProps) => {
  const text = (
    <>
      <span aria-hidden="true" title={value}>
        {isWhole ? value : shortenHex(value)}
      </span>
      <span class="visually-hidden">{value}</span>
    </>
  );
  return (
    <span class={isWhole ? "address whole" : "address"}>
      {href ? <a href={href}>{text}</a> : text}
      <CopyButton text={value} what={what} />
    </span>
  );
};

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
      aria-label={isCopied ? "Copied" : `Copy ${what} ${shortenHex(text)}`}
      title={isCopied ? "Copied" : `Copy ${what}`}
      onClick={copy}
    >
      <svg viewBox="0 0 24 24" aria-hidden="true">
        {isCopied ? <path d="m5 12.5 4.5 4.5L19 7.5" /> : <path d="M9 9h10v11H9zM15 9V4H5v11h4" />}
      </svg>
    </button>
  );
};

/** Browsers have no `navigator.clipboard` without HTTPS, so falls back to `execCommand`. */
const copyText = async (text: string): Promise<void> => {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
};
