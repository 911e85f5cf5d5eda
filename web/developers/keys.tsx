import { useEffect, useRef, useState } from "preact/hooks";
import { Address } from "../shared/address.tsx";
import { ask } from "../shared/ask.ts";
import { FailureNotice } from "../shared/notice.tsx";
import { useAnswer } from "../shared/use-answer.ts";
import { describeFailure, isSessionOver, type Key, type KeysAnswer, type NewKey, type Session } from "./answers.ts";
import { MadeKey } from "./made-key.tsx";
import { Revoke } from "./revoke.tsx";
import { Usage } from "./usage.tsx";

type KeysProps = {
  session: Session;
  /** Whether that was done on this page: then the focus goes on from there. */
  isJustSignedIn: boolean;
  onSignedOut: (isOver: boolean) => void;
};

/** The keys of whoever is signed in. */
export const Keys = ({ session, isJustSignedIn, onSignedOut }: KeysProps) => {
  const { answer, again } = useAnswer<KeysAnswer>("/developers/api/keys");
  const [shown, setShown] = useState<KeysAnswer | null>(null);
  const [made, setMade] = useState<NewKey | null>(null);
  const [revoking, setRevoking] = useState<Key | null>(null);
  const [said, setSaid] = useState("");
  const title = useRef<HTMLHeadingElement>(null);

  // What was shown stays while it is asked for again.
  useEffect(() => {
    if (answer?.kind === "answered") setShown(answer.value);
    else if (answer && isSessionOver(answer)) onSignedOut(true);
  }, [answer]);
  const isShown = shown !== null;
  useEffect(() => {
    if (isShown && isJustSignedIn) title.current?.focus();
  }, [isShown]);

  const signOut = async () => {
    const answer = await ask("/developers/api/session", { method: "DELETE" });
    if (answer.kind === "answered") onSignedOut(false);
    else setSaid(`Still signed in. ${describeFailure(answer)}`);
  };
  const onStored = () => {
    setMade(null);
    title.current?.focus();
  };
  const onMade = (key: NewKey) => {
    setMade(key);
    again();
  };
  const onRevoked = () => {
    setSaid(`“${revoking?.name}” is revoked.`);
    setRevoking(null);
    again();
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
      {answer && answer.kind !== "answered" && !isSessionOver(answer) && (
        <FailureNotice failure={answer} again={again} />
      )}
      {made && <MadeKey made={made} wallet={session.address} onStored={onStored} />}
      {shown && (
        <KeyList
          answer={shown}
          title={title}
          onMade={onMade}
          onRevoke={setRevoking}
          onSessionOver={() => onSignedOut(true)}
        />
      )}
      {!shown && !answer && <div class="skeleton placeholder" role="status" aria-label="Loading your keys" />}
      <p class="unseen" role="status">
        {said}
      </p>
      {revoking && (
        <Revoke
          target={revoking}
          onDone={onRevoked}
          onCancel={() => setRevoking(null)}
          onSessionOver={() => onSignedOut(true)}
        />
      )}
    </>
  );
};

type KeyListProps = {
  answer: KeysAnswer;
  title: { current: HTMLHeadingElement | null };
  onMade: (key: NewKey) => void;
  onRevoke: (key: Key) => void;
  onSessionOver: () => void;
};

const KeyList = ({
  answer: { keys, keysPerWallet, usageDays },
  title,
  onMade,
  onRevoke,
  onSessionOver,
}: KeyListProps) => {
  const active = keys.filter(({ revokedAt }) => revokedAt === null);
  const revoked = keys.filter(({ revokedAt }) => revokedAt !== null);
  return (
    <>
      <section aria-labelledby="keys-title">
        <div class="title-line">
          <h2 id="keys-title" tabIndex={-1} ref={title}>
            Your keys
          </h2>
          <span class="quiet">
            {active.length} of {keysPerWallet}
          </span>
        </div>
        <NewKeyForm
          isFull={active.length >= keysPerWallet}
          most={keysPerWallet}
          onMade={onMade}
          onSessionOver={onSessionOver}
        />
        {active.length === 0 ? (
          <p class="empty quiet">
            No keys yet. Name one after the program that will use it: then you know which to revoke.
          </p>
        ) : (
          <ul class="keys">
            {active.map((key) => (
              <KeyRow key={key.prefix} of={key} usageDays={usageDays} onRevoke={() => onRevoke(key)} />
            ))}
          </ul>
        )}
        {active.length > 0 && (
          <p class="quiet note">Days are in UTC. What was asked a moment ago shows after some seconds.</p>
        )}
      </section>
      {revoked.length > 0 && (
        <details class="revoked">
          <summary>
            {revoked.length} revoked {revoked.length === 1 ? "key" : "keys"}
          </summary>
          <ul>
            {revoked.map(({ prefix, name, revokedAt }) => (
              <li key={prefix}>
                <span>{name}</span>
                <code>{prefix}…</code>
                <span class="quiet">revoked {revokedAt && <Moment at={revokedAt} />}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
};

type KeyRowProps = { of: Key; usageDays: number; onRevoke: () => void };

const KeyRow = ({ of: { name, prefix, createdAt, lastUsedAt, requests, days }, usageDays, onRevoke }: KeyRowProps) => (
  <li class="card key">
    <div class="key-name">
      <h3>{name}</h3>
      <code>{prefix}…</code>
    </div>
    <dl>
      <div>
        <dt>Created</dt>
        <dd>
          <Moment at={createdAt} />
        </dd>
      </div>
      <div>
        <dt>Last used</dt>
        <dd>{lastUsedAt ? <Moment at={lastUsedAt} /> : "never"}</dd>
      </div>
      <div>
        <dt>Requests</dt>
        <dd>{requests.toLocaleString("en")}</dd>
      </div>
    </dl>
    <div class="key-usage">
      <Usage days={days} count={usageDays} />
      <p class="quiet" aria-hidden="true">
        last {usageDays} days
      </p>
    </div>
    <button type="button" class="button danger" aria-label={`Revoke ${name}`} onClick={onRevoke}>
      Revoke
    </button>
  </li>
);

/** A day, or for today the time. */
const Moment = ({ at }: { at: string }) => {
  const date = new Date(at);
  const isToday = date.toDateString() === new Date().toDateString();
  const text = isToday
    ? `today, ${date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}`
    : date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
  return (
    <time dateTime={at} title={date.toLocaleString("en-GB")}>
      {text}
    </time>
  );
};

type NewKeyFormProps = {
  isFull: boolean;
  most: number;
  onMade: (key: NewKey) => void;
  onSessionOver: () => void;
};

const NewKeyForm = ({ isFull, most, onMade, onSessionOver }: NewKeyFormProps) => {
  const [name, setName] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);

  const make = async (event: Event) => {
    event.preventDefault();
    if (name.trim() === "") {
      setError("Give it a name first: that of the program that will use it, for example.");
      return;
    }
    setBusy(true);
    setError(null);
    const answer = await ask<NewKey>("/developers/api/keys", { method: "POST", body: { name } });
    setBusy(false);
    if (answer.kind === "answered") {
      setName("");
      onMade(answer.value);
    } else if (isSessionOver(answer)) onSessionOver();
    else setError(describeFailure(answer));
  };

  if (isFull) {
    return (
      <p class="full">
        {most === 1 ? "This wallet has its one key." : `All ${most} of this wallet's keys are in use.`} Revoke one to
        make another.
      </p>
    );
  }
  return (
    <form class="new-key" onSubmit={make} noValidate>
      <div class="field">
        <label for="key-name">Name of a new key</label>
        <input
          id="key-name"
          maxLength={64}
          autocomplete="off"
          placeholder="Example app"
          value={name}
          aria-invalid={error !== null}
          aria-describedby={error === null ? undefined : "key-name-error"}
          onInput={({ currentTarget }) => setName(currentTarget.value)}
        />
        {error !== null && (
          <p class="error" id="key-name-error" role="alert">
            {error}
          </p>
        )}
      </div>
      <button type="submit" class="button primary" disabled={isBusy}>
        Make a key
      </button>
    </form>
  );
};
