import "./developers.css";
import { render } from "preact";
import { useState } from "preact/hooks";
import { FailureNotice, Notice } from "../shared/notice.tsx";
import { useAnswer } from "../shared/use-answer.ts";
import type { SessionAnswer } from "./answers.ts";
import { Keys } from "./keys.tsx";
import { SignIn } from "./sign-in.tsx";

/** Who is signed in, as far as this page knows: since it was loaded, somebody may have signed in or out. */
type Known = { session: SessionAnswer["session"]; isOver: boolean };

const Developers = () => {
  const { answer, again } = useAnswer<SessionAnswer>("/developers/api/session");
  const [known, setKnown] = useState<Known | null>(null);

  if (answer === null) return <div class="skeleton placeholder" role="status" aria-label="Loading" />;
  if (answer.kind !== "answered") return <FailureNotice failure={answer} again={again} />;
  const { origin, session: first } = answer.value;
  if (origin === null) return <NotSetUp />;
  if (origin !== location.origin) return <Elsewhere origin={origin} />;
  const { session, isOver } = known ?? { session: first, isOver: false };
  return session ? (
    <Keys
      session={session}
      isJustSignedIn={known !== null}
      onSignedOut={(isOver) => setKnown({ session: null, isOver })}
    />
  ) : (
    <SignIn
      isBack={known !== null}
      isOver={isOver}
      onSignedIn={({ session }) => setKnown({ session, isOver: false })}
    />
  );
};

const NotSetUp = () => (
  <Notice title="Nobody can sign in here yet" tone="poor">
    <p>
      Whoever runs this service has to set <code>PUBLIC_URL</code> to its address. Until then, ask them for a key.
    </p>
  </Notice>
);

const Elsewhere = ({ origin }: { origin: string }) => (
  <Notice title="This page is at another address" tone="poor">
    <p>Wallets sign in to one address alone, so that nobody can do it in your name.</p>
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
          can read. <a href="/docs">What can be asked</a>
        </p>
      </header>
      <Developers />
    </div>,
    main,
  );
}
