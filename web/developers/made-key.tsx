import { useEffect, useRef } from "preact/hooks";
import { Copyable } from "./copyable.tsx";
import type { NewKeyJson } from "./json.ts";

type MadeKeyProps = { made: NewKeyJson; wallet: string; onStored: () => void };

/** Shows a new key, once, with examples of its use. */
export const MadeKey = ({ made: { key, name }, wallet, onStored }: MadeKeyProps) => {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  const url = `${location.origin}/registry/v2/${wallet}`;
  return (
    <section class="made-key" aria-labelledby="made-key">
      <h2 id="made-key" tabIndex={-1} ref={heading}>
        The key for “{name}”
      </h2>
      <p>Copy it now: it is shown only once, and stored nowhere. If you lose it, make another one.</p>
      <Copyable label="Key" text={key} what="key" />
      <Copyable label="With curl" text={`curl -H "X-API-KEY: ${key}" "${url}"`} what="curl command" />
      <Copyable
        label="With fetch, on your server"
        text={`const response = await fetch("${url}", {\n  headers: { "X-API-KEY": "${key}" },\n});\nconsole.log(await response.text());`}
        what="fetch example"
      />
      <button type="button" class="button primary" onClick={onStored}>
        I have stored it
      </button>
    </section>
  );
};
