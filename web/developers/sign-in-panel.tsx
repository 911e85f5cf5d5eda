import { useEffect, useRef, useState } from "preact/hooks";
import { describeFailure, type FetchFailure, type FetchResult, fetchJson } from "../shared/fetch-json.ts";
import { Notice } from "../shared/notice.tsx";
import type { SessionAnswerJson } from "./json.ts";
import { type BrowserWallet, connectWallet, describeWalletError, signMessage, useWallets } from "./wallets.ts";

type SignInPanelProps = {
  /** True if the user was signed in on this page before. */
  isSignedOut: boolean;
  /** True if the session expired, rather than that the user signed out. */
  isExpired: boolean;
  onSignedIn: (answer: SessionAnswerJson) => void;
};

export const SignInPanel = ({ isSignedOut, isExpired, onSignedIn }: SignInPanelProps) => {
  const wallets = useWallets();
  const [step, setStep] = useState<string | null>(null);
  const [error, setError] = useState<string | null>(
    isExpired ? "Your session has ended. Sign in again to continue." : null,
  );

  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (isSignedOut) title.current?.focus();
  }, []);

  const startSignIn = async (wallet: BrowserWallet) => {
    setError(null);
    try {
      onSignedIn(await signInWith(wallet, setStep));
    } catch (error) {
      setError(error instanceof RejectedRequest ? describeFailure(error.failure) : describeWalletError(error));
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
            else. Your private keys stay in the wallet.
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
                onClick={() => startSignIn(wallet)}
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
      <KeyFacts />
    </>
  );
};

/** Asks the wallet for its account and network, then for one signature. */
const signInWith = async ({ provider }: BrowserWallet, setStep: (step: string) => void): Promise<SessionAnswerJson> => {
  setStep("Open your wallet and choose the account to sign in with.");
  const { address, chainId } = await connectWallet(provider);
  const { message } = requireValue(
    await fetchJson<{ message: string }>("/developers/api/challenge", { method: "POST", body: { address, chainId } }),
  );
  setStep("Now sign the message in your wallet. It is free, and sends no transaction.");
  const signature = await signMessage(provider, address, message);
  setStep("Checking the signature…");
  const body = { message, signature };
  return requireValue(await fetchJson<SessionAnswerJson>("/developers/api/session", { method: "POST", body }));
};

class RejectedRequest extends Error {
  readonly failure: FetchFailure;

  constructor(failure: FetchFailure) {
    super(failure.kind);
    this.failure = failure;
  }
}

const requireValue = <Value,>(result: FetchResult<Value>): Value => {
  if (result.kind === "ok") return result.value;
  throw new RejectedRequest(result);
};

const KeyFacts = () => (
  <ul class="facts">
    <li>
      <h3>Without a key</h3>
      <p>25 requests in 10 seconds for each address, unless this service sets another limit. Often that is enough.</p>
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
        Your wallet's address, names and hashes of your keys, and requests by day. Never which wallets you ask about.
      </p>
    </li>
  </ul>
);

const NoWallet = () => (
  <Notice title="No wallet found in this browser" tone="poor">
    <p>
      Install a wallet as an extension of this browser and reload this page. On a phone, open this page in your wallet
      app's own browser. Without a wallet, ask the operator of this service for a key.
    </p>
    <button type="button" class="button" onClick={() => location.reload()}>
      Look again
    </button>
  </Notice>
);
