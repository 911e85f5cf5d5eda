import { useEffect, useRef, useState } from "preact/hooks";
import { type Answer, ask, type Failure } from "../shared/ask.ts";
import { Notice } from "../shared/notice.tsx";
import { describeFailure, type SessionAnswer } from "./answers.ts";
import { connect, describeWalletError, sign, useWallets, type Wallet } from "./wallets.ts";

type SignInProps = {
  /** Whether somebody was signed in on this page before; and whether they did not sign out themselves. */
  isBack: boolean;
  isOver: boolean;
  onSignedIn: (session: SessionAnswer) => void;
};

/** Signs in with a wallet: two questions to it, and one signature. */
export const SignIn = ({ isBack, isOver, onSignedIn }: SignInProps) => {
  const wallets = useWallets();
  const [step, setStep] = useState<string | null>(null);
  const [error, setError] = useState<string | null>(isOver ? "Your session is over. Sign in again to go on." : null);

  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (isBack) title.current?.focus();
  }, []);

  const signIn = async ({ provider }: Wallet) => {
    setError(null);
    try {
      setStep("Open your wallet and choose the account to sign in with.");
      const { address, chainId } = await connect(provider);
      const asked = await ask<{ message: string }>("/developers/api/challenge", {
        method: "POST",
        body: { address, chainId },
      });
      const { message } = requireValue(asked);
      setStep("Now sign the message in your wallet. It is free, and sends no transaction.");
      const signature = await sign(provider, address, message);
      setStep("Checking the signature…");
      const body = { message, signature };
      onSignedIn(requireValue(await ask<SessionAnswer>("/developers/api/session", { method: "POST", body })));
    } catch (error) {
      setError(error instanceof Refusal ? describeFailure(error.failure) : describeWalletError(error));
    } finally {
      setStep(null);
    }
  };

  return (
    <>
      <div class="sign-in card">
        <div>
          <h2 id="sign-in-title" tabIndex={-1} ref={title}>
            Sign in with your wallet
          </h2>
          <p class="quiet">
            Your wallet is your account: no e-mail, no password. You sign a message that says who you are, and nothing
            else. Your keys stay with the wallet.
          </p>
        </div>
        {wallets.length === 0 ? (
          <NoWallet />
        ) : (
          <div class="wallets">
            {wallets.map((wallet) => (
              <button
                key={wallet.id}
                type="button"
                class="button primary"
                disabled={step !== null}
                onClick={() => signIn(wallet)}
              >
                Sign in with {wallet.name}
              </button>
            ))}
          </div>
        )}
        <p class="step" role="status">
          {step}
        </p>
        {error && (
          <p class="error-line" role="alert">
            {error}
          </p>
        )}
      </div>
      <ul class="facts">
        <li>
          <h3>Without a key</h3>
          <p>25 requests in 10 seconds for each address, unless this service says otherwise. Often that is enough.</p>
        </li>
        <li>
          <h3>With a key</h3>
          <p>
            No limit on v2. Send it in the header <code>X-API-KEY</code>.
          </p>
        </li>
        <li>
          <h3>What is stored</h3>
          <p>
            Your wallet's address, names and hashes of your keys, and requests by day. Never which wallets you ask
            about.
          </p>
        </li>
      </ul>
    </>
  );
};

/** A step that the service refused. */
class Refusal extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.kind);
    this.failure = failure;
  }
}

const requireValue = <Value,>(answer: Answer<Value>): Value => {
  if (answer.kind === "answered") return answer.value;
  throw new Refusal(answer);
};

const NoWallet = () => (
  <Notice title="No wallet found in this browser" tone="poor">
    <p>
      Install a wallet as an extension of this browser and load this page again; or, on a phone, open this page in your
      wallet app's own browser. Without a wallet, ask whoever runs this service for a key.
    </p>
    <button type="button" class="button" onClick={() => location.reload()}>
      Look again
    </button>
  </Notice>
);
