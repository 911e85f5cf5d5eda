import { Notice } from "../shared/notice.tsx";
import { DayOrTime } from "./day-or-time.tsx";
import type { KeyListJson, ListedKeyJson, NewKeyJson } from "./json.ts";
import { NewKeyForm } from "./new-key-form.tsx";
import { UsageChart } from "./usage-chart.tsx";

type KeyListProps = {
  list: KeyListJson;
  title: { current: HTMLHeadingElement | null };
  onMade: (key: NewKeyJson) => void;
  onRevoke: (key: ListedKeyJson) => void;
  onSessionExpired: () => void;
};

export const KeyList = ({ list, title, onMade, onRevoke, onSessionExpired }: KeyListProps) => {
  const { isBlocked, keys, keysPerWallet, usageDays } = list;
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
        {isBlocked ? (
          <Notice title="This account is blocked" tone="poor">
            <p>The operator of this service refuses its keys, and it cannot make others. Ask the operator.</p>
          </Notice>
        ) : active.length >= keysPerWallet ? (
          <p class="full">
            {keysPerWallet === 1
              ? "This wallet already has its one key."
              : `All ${keysPerWallet} of this wallet's keys are in use.`}{" "}
            Revoke one to make another.
          </p>
        ) : (
          <NewKeyForm onMade={onMade} onSessionExpired={onSessionExpired} />
        )}
        {active.length === 0 ? (
          <p class="empty quiet">
            No keys yet. Name each key after the program that uses it, so that you know which one to revoke.
          </p>
        ) : (
          <>
            <ul class="keys">
              {active.map((key) => (
                <KeyRow key={key.prefix} entry={key} usageDays={usageDays} onRevoke={() => onRevoke(key)} />
              ))}
            </ul>
            <p class="quiet note">Days are in UTC. New requests show up after a few seconds.</p>
          </>
        )}
      </section>
      {revoked.length > 0 && <RevokedKeys keys={revoked} />}
    </>
  );
};

const RevokedKeys = ({ keys }: { keys: readonly ListedKeyJson[] }) => (
  <details class="revoked">
    <summary>
      {keys.length} revoked {keys.length === 1 ? "key" : "keys"}
    </summary>
    <ul>
      {keys.map(({ prefix, name, revokedAt }) => (
        <li key={prefix}>
          <span>{name}</span>
          <code>{prefix}…</code>
          <span class="quiet">revoked {revokedAt && <DayOrTime at={revokedAt} />}</span>
        </li>
      ))}
    </ul>
  </details>
);

type KeyRowProps = { entry: ListedKeyJson; usageDays: number; onRevoke: () => void };

const KeyRow = ({ entry, usageDays, onRevoke }: KeyRowProps) => {
  const { name, prefix, createdAt, lastUsedAt, requests, days } = entry;
  return (
    <li class="card key">
      <div class="key-name">
        <h3>{name}</h3>
        <code>{prefix}…</code>
      </div>
      <dl>
        <div>
          <dt>Created</dt>
          <dd>
            <DayOrTime at={createdAt} />
          </dd>
        </div>
        <div>
          <dt>Last used</dt>
          <dd>{lastUsedAt ? <DayOrTime at={lastUsedAt} /> : "never"}</dd>
        </div>
        <div>
          <dt>Requests</dt>
          <dd>{requests.toLocaleString("en")}</dd>
        </div>
      </dl>
      <div class="key-usage">
        <UsageChart days={days} count={usageDays} />
        <p class="quiet" aria-hidden="true">
          last {usageDays} days
        </p>
      </div>
      <button type="button" class="button danger" aria-label={`Revoke ${name}`} onClick={onRevoke}>
        Revoke
      </button>
    </li>
  );
};
