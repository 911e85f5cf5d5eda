import type { Page } from "playwright-core";
import type { Hex } from "viem";
import type { PrivateKeyAccount } from "viem/accounts";
import { createWallet } from "./portal.ts";

type Call = { method: string; params?: [Hex, string] };
type WalletOptions = {
  account?: PrivateKeyAccount;
  chainId?: number;
  /** Announces itself by this name (EIP-6963). Without a name it sets `window.ethereum`. */
  name?: string;
};

/** Creates a browser wallet with a real key. It signs every message, or declines if `isWilling` is false. */
export const createBrowserWallet = ({ account = createWallet(), chainId = 1, name }: WalletOptions = {}) => {
  const wallet = { account, isWilling: true, signed: [] as string[] };

  const answer = async ({ method, params }: Call): Promise<{ result: unknown } | { error: object }> => {
    if (!wallet.isWilling) return { error: { code: 4001, message: "User rejected the request." } };
    switch (method) {
      case "eth_requestAccounts":
        return { result: [account.address] };
      case "eth_chainId":
        return { result: `0x${chainId.toString(16)}` };
      case "personal_sign": {
        const [raw = "0x"] = params ?? [];
        wallet.signed.push(Buffer.from(raw.slice(2), "hex").toString());
        return { result: await account.signMessage({ message: { raw } }) };
      }
      default:
        return { error: { code: 4200, message: `${method} is not supported.` } };
    }
  };

  const prepare = async (page: Page): Promise<void> => {
    await page.exposeFunction("askTestWallet", answer);
    await page.addInitScript(`
      const provider = { request: async (call) => {
        const answer = await window.askTestWallet(call);
        if (answer.error) throw answer.error;
        return answer.result;
      } };
      const name = ${JSON.stringify(name ?? null)};
      if (name === null) window.ethereum = provider;
      else {
        const info = { uuid: "350670db-19fa-4704-a166-e52e178b59d2", name, icon: "data:,", rdns: "example.wallet" };
        const detail = Object.freeze({ info, provider });
        const announce = () => window.dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail }));
        window.addEventListener("eip6963:requestProvider", announce);
        announce();
      }`);
  };
  return Object.assign(wallet, { prepare });
};
