import type { OutgoingHttpHeaders } from "node:http";
import type { Address } from "viem";
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import type { Api } from "./api.ts";
import { type HttpAnswer, sendHttp } from "./http.ts";
import { type DescribedOperation, type Description, listOperations, type Operation } from "./openapi.ts";

export const createWallet = (): PrivateKeyAccount => privateKeyToAccount(generatePrivateKey());

type Sent = { method?: string; body?: unknown; headers?: OutgoingHttpHeaders };

/** A response with its body parsed. */
export type DeveloperAnswer<Body> = HttpAnswer & { json: Body };

export type KeyJson = {
  name: string;
  prefix: string;
  createdAt: string;
  revokedAt: string | null;
  lastUsedAt: string | null;
  requests: number;
  days: { day: string; requests: number }[];
};

/** Simulates a browser on the developer page, with an origin and cookies. */
export class Visitor {
  readonly #api: Pick<Api, "url" | "port">;
  readonly cookies = new Map<string, string>();

  constructor(api: Pick<Api, "url" | "port">) {
    this.#api = api;
  }

  get origin(): string {
    return this.#api.url;
  }

  /** Returns a browser with the same cookies at a given process. */
  at(api: Api): Visitor {
    const visitor = new Visitor(api);
    for (const [name, value] of this.cookies) visitor.cookies.set(name, value);
    return visitor;
  }

  get cookieHeader(): string {
    return [...this.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  }

  /** Sends a request like the page's. A header that is set to undefined is left out. */
  async send<Body = { type: string; detail: string }>(
    path: string,
    { method = "GET", body, headers = {} }: Sent = {},
  ): Promise<DeveloperAnswer<Body>> {
    const isChange = method !== "GET";
    const all: OutgoingHttpHeaders = {
      Cookie: this.cookieHeader || undefined,
      Origin: isChange ? this.origin : undefined,
      "Sec-Fetch-Site": "same-origin",
      "Content-Type": body === undefined ? undefined : "application/json",
      ...headers,
    };
    const sent = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
    const answer = await sendHttp(
      this.#api.port,
      { path: `/developers/api/${path}`, method, headers: sent },
      typeof body === "string" ? body : body === undefined ? "" : JSON.stringify(body),
    );
    for (const cookie of [answer.headers["set-cookie"] ?? []].flat()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(cookie) ?? [];
      if (value) this.cookies.set(name, value);
      else this.cookies.delete(name);
    }
    return { ...answer, json: answer.body === "" ? null : JSON.parse(answer.body) };
  }

  /** Begins a sign-in. @returns the message to sign */
  async begin(address: Address, chainId = 1, headers?: OutgoingHttpHeaders): Promise<string> {
    const { status, body, json } = await this.send<{ message: string }>("challenge", {
      method: "POST",
      body: { address, chainId },
      ...(headers && { headers }),
    });
    if (status !== 200) throw new Error(`${status} ${body}`);
    return json.message;
  }

  finish(message: string, signature: string, headers?: OutgoingHttpHeaders) {
    return this.send<{ session: { address: string; network: string | null } } & { detail: string; type: string }>(
      "session",
      { method: "POST", body: { message, signature }, ...(headers && { headers }) },
    );
  }

  async signIn(wallet: PrivateKeyAccount): Promise<void> {
    const message = await this.begin(wallet.address);
    const { status, body } = await this.finish(message, await wallet.signMessage({ message }));
    if (status !== 200) throw new Error(`${status} ${body}`);
  }

  makeKey(name: string) {
    return this.send<KeyJson & { key: string; detail: string }>("keys", { method: "POST", body: { name } });
  }

  async keys(): Promise<KeyJson[]> {
    return (await this.send<{ keys: KeyJson[] }>("keys")).json.keys;
  }
}

/** Creates a signed-in visitor. */
export const signInVisitor = async (api: Api, wallet = createWallet()): Promise<Visitor> => {
  const visitor = new Visitor(api);
  await visitor.signIn(wallet);
  return visitor;
};

/** The message of session requests: a test may replace it by one that it was given. */
export const EXAMPLE_MESSAGE = "x wants you to sign in";

const describe = (example?: Record<string, string | number>): DescribedOperation => {
  const properties = Object.fromEntries(
    Object.entries(example ?? {}).map(([name, value]) => [
      name,
      { type: typeof value === "number" ? "integer" : "string" },
    ]),
  );
  const content = { "application/json": { example, schema: { properties } } };
  return { operationId: "", responses: {}, ...(example && { requestBody: { content } }) };
};

/** Paths of the developer page, which the document leaves out. */
const PATHS: Description["paths"] = {
  challenge: { post: describe({ address: `0x${"1".repeat(40)}`, chainId: 1 }) },
  session: {
    get: describe(),
    post: describe({ message: EXAMPLE_MESSAGE, signature: `0x${"1b".repeat(65)}` }),
    delete: describe(),
  },
  keys: { get: describe(), post: describe({ name: "key" }) },
  webhooks: { get: describe(), post: describe({ url: "https://example.com/", vault: `0x${"1".repeat(40)}` }) },
  "keys/{prefix}": {
    delete: { ...describe(), parameters: [{ name: "prefix", in: "path", required: true, schema: { type: "string" } }] },
  },
};

/** The operations of the developer page. */
export const DEVELOPER_OPERATIONS: Operation[] = listOperations({
  paths: Object.fromEntries(Object.entries(PATHS).map(([path, methods]) => [`/developers/api/${path}`, methods])),
});
