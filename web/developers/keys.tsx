import { useEffect, useRef, useState } from "preact/hooks";
import { Address } from "../shared/address.tsx";
import { describeFailure, fetchJson } from "../shared/fetch-json.ts";
import { FailureNotice } from "../shared/notice.tsx";
import { useJson } from "../shared/use-json.ts";
import { ConfirmDialog } from "./confirm-dialog.tsx";
import { isSessionExpired, type KeyListJson, type ListedKeyJson, type NewKeyJson, type SessionJson } from "./json.ts";
import { KeyList } from "./key-list.tsx";
import { MadeKey } from "./made-key.tsx";
import { Webhooks } from "./webhooks.tsx";

type KeysProps = {
  session: SessionJson;
  hasWebhooks: boolean;
  /** True if the user signed in on this page: the focus then moves to the list. */
  isJustSignedIn: boolean;
  onSignedOut: (isExpired: boolean) => void;
};

/** The keys of the signed-in wallet, and its webhooks. */
export const Keys = ({ session, hasWebhooks, isJustSignedIn, onSignedOut }: KeysProps) => {
  const { result, retry } = useJson<KeyListJson>("/developers/api/keys");
  const [list, setList] = useState<KeyListJson | null>(null);
  const [made, setMade] = useState<NewKeyJson | null>(null);
  const [revoking, setRevoking] = useState<ListedKeyJson | null>(null);
  const [status, setStatus] = useState("");
  const title = useRef<HTMLHeadingElement>(null);

  // The last list stays visible while a new one is fetched.
  useEffect(() => {
    if (result?.kind === "ok") setList(result.value);
    else if (result && isSessionExpired(result)) onSignedOut(true);
  }, [result]);
  const isShown = list !== null;
  useEffect(() => {
    if (isShown && isJustSignedIn) title.current?.focus();
  }, [isShown]);

  const signOut = async () => {
    const signedOut = await fetchJson("/developers/api/session", { method: "DELETE" });
    if (signedOut.kind === "ok") onSignedOut(false);
    else setStatus(`You are still signed in. ${describeFailure(signedOut)}`);
  };
  const onStored = () => {
    setMade(null);
    title.current?.focus();
  };
  const onMade = (key: NewKeyJson) => {
    setMade(key);
    retry();
  };
  const onRevoked = () => {
    setStatus(`“${revoking?.name}” is revoked.`);
    setRevoking(null);
    retry();
    title.current?.focus();
  };

  return (
    <>
      <div class="account">
        <p>
          Signed in as <Address value={session.address} what="wallet" />
          {session.network && <span class="chip">contract on {session.network}</span>}
        </p>
        <button type="button" class="button" onClick={signOut}>
          Sign out
        </button>
      </div>
      {result && result.kind !== "ok" && !isSessionExpired(result) && <FailureNotice failure={result} retry={retry} />}
      {made && <MadeKey made={made} wallet={session.address} onStored={onStored} />}
      {list && (
        <KeyList
          list={list}
          title={title}
          onMade={onMade}
          onRevoke={setRevoking}
          onSessionExpired={() => onSignedOut(true)}
        />
      )}
      {list && hasWebhooks && <Webhooks onSessionExpired={() => onSignedOut(true)} />}
      {!list && !result && <div class="skeleton placeholder" role="status" aria-label="Loading your keys" />}
      <p class="visually-hidden" role="status">
        {status}
      </p>
      {revoking && (
        <ConfirmDialog
          title={`Revoke “${revoking.name}”?`}
          path={`/developers/api/keys/${revoking.prefix}`}
          confirmLabel="Revoke key"
          onDone={onRevoked}
          onCancel={() => setRevoking(null)}
          onSessionExpired={() => onSignedOut(true)}
        >
          <p>
            Programs that use <code>{revoking.prefix}…</code> stop working within a minute. This cannot be undone.
          </p>
        </ConfirmDialog>
      )}
    </>
  );
};
