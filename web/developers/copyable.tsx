import { CopyButton } from "../shared/address.tsx";

/** A text to copy, with its label. */
export const Copyable = ({ label, text, what }: { label: string; text: string; what: string }) => (
  <figure class="copyable">
    <figcaption>{label}</figcaption>
    <pre>
      <code>{text}</code>
    </pre>
    <CopyButton text={text} what={what} />
  </figure>
);
