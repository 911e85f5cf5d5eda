import "./developers.css";
import { render } from "preact";
import { useState } from "preact/hooks";
import { FailureNotice, Notice } from "../shared/notice.tsx";
import { useJson } from "../shared/use-json.ts";
import type { SessionAnswerJson, SessionJson } from "./json.ts";
import { Keys } from "./keys.tsx";
import { SignInPanel } from "./sign-in-panel.tsx";

/** The session after the user signed in or out on this page. */
type ChangedSession = { session: SessionJson | null; isExpired: boolean };

const Developers = () => {
  const { result, retry } = useJson<SessionAnswerJson>("/developers/api/session");
  const [changed, setChanged] = useState<ChangedSession | null>(null);

  if (result === null) return <div class="skeleton placeholder" role="status" aria-label="Loading" />;
  if (result.kind !== "ok") return <FailureNotice failure={result} retry={retry} />;
  const { origin, session: initialSession, hasWebhooks = false } = result.value;
  if (origin === null) return <NotSetUp />;
  if (origin !== location.origin) return <OtherOrigin origin={origin} />;
  const { session, isExpired } = changed ?? { session: initialSession, isExpired: false };
  return session ? (
    <Keys
      session={session}
      hasWebhooks={hasWebhooks}
      isJustSignedIn={changed !== null}
      onSignedOut={(isExpired) => setChanged({ session: null, isExpired })}
    />
  ) : (
    <SignInPanel
      isSignedOut={changed !== null}
      isExpired={isExpired}
      onSignedIn={({ session }) => setChanged({ session, isExpired: false })}
    />
  );
};

const NotSetUp = () => (
  <Notice title="Nobody can sign in here yet" tone="poor">
    <p>
      The operator of this service has to set <code>PUBLIC_URL</code> to its address. Until then, only a browser on its
      own machine can sign in, not through a proxy. Ask the operator for a key.
    </p>
  </Notice>
);

const OtherOrigin = ({ origin }: { origin: string }) => (
  <Notice title="This page is at another address" tone="poor">
    <p>Wallets sign in at one address only, so that nobody can sign in in your name.</p>
    <a class="button" href={`${origin}/developers`}>
      Go to {new URL(origin).host}
    </a>
  </Notice>
);

const main = document.getElementById("content");
if (main) {
  render(
    <div class="column developers">
      <header class="intro">
        <h1>API keys</h1>
        <p class="quiet">
          A key lifts the rate limit of v2. It is a secret: keep it on your server, not in a page or an app that others
          can read. <a href="/docs">See what the API offers</a>
        </p>
      </header>
      <Developers />
    </div>,
    main,
  );
}
