import { useEffect, useState } from "preact/hooks";

// Wallets in the browser: those that announce themselves (EIP-6963), otherwise `window.ethereum` (EIP-1193).

/** An EIP-1193 provider. */
type Provider = { request: (call: { method: string; params?: readonly unknown[] }) => Promise<unknown> };

export type BrowserWallet = { id: string; name: string; provider: Provider };

type Announcement = CustomEvent<{ info: { uuid: string; name: string }; provider: Provider }>;

declare global {
  interface Window {
    ethereum?: Provider;
  }
  interface WindowEventMap {
    "eip6963:announceProvider": Announcement;
  }
}

/** All wallets found so far. Some announce themselves late. */
export const useWallets = (): readonly BrowserWallet[] => {
  const [announced, setAnnounced] = useState<readonly BrowserWallet[]>([]);
  const [injected, setInjected] = useState(window.ethereum);
  useEffect(() => {
    const add = ({ detail: { info, provider } }: Announcement) => {
      const wallet = { id: info.uuid, name: info.name, provider };
      setAnnounced((wallets) => [...wallets.filter(({ id }) => id !== wallet.id), wallet]);
    };
    const updateInjected = () => setInjected(window.ethereum);
    window.addEventListener("eip6963:announceProvider", add);
    window.addEventListener("ethereum#initialized", updateInjected);
    window.dispatchEvent(new Event("eip6963:requestProvider"));
    return () => {
      window.removeEventListener("eip6963:announceProvider", add);
      window.removeEventListener("ethereum#initialized", updateInjected);
    };
  }, []);
  if (announced.length > 0) return announced;
  return injected ? [{ id: "injected", name: "your wallet", provider: injected }] : [];
};

/** Asks the wallet for an account, and for its network. */
export const connectWallet = async ({ request }: Provider): Promise<{ address: string; chainId: number }> => {
  const accounts = await request({ method: "eth_requestAccounts" });
  const [address] = Array.isArray(accounts) ? accounts : [];
  if (typeof address !== "string") throw new Error("The wallet has no account to sign in with.");
  return { address, chainId: Number(await request({ method: "eth_chainId" })) };
};

export const signMessage = async ({ request }: Provider, address: string, message: string): Promise<string> => {
  const bytes = new TextEncoder().encode(message);
  const hex = `0x${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  return String(await request({ method: "personal_sign", params: [hex, address] }));
};

/** Explains a wallet's error by its code (EIP-1193, EIP-1474). */
export const describeWalletError = (error: unknown): string => {
  const fields = typeof error === "object" && error !== null ? error : {};
  const code = "code" in fields ? fields.code : undefined;
  const message = "message" in fields ? fields.message : undefined;
  if (code === 4001) return "You declined in your wallet. Nothing changed. You can try again.";
  if (code === -32002) return "Your wallet is still asking you something. Open it and answer there first.";
  return `Your wallet could not do this${typeof message === "string" && message ? `: ${message}` : "."}`;
};
