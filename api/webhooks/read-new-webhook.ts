import type { BlockList } from "node:net";
import { isIP } from "node:net";
import { networks } from "../../registry/networks.ts";
import { changeCursor } from "../changes/change-cursor.ts";
import { changeQuery } from "../changes/change-routes.ts";
import { nameChanges } from "../changes/read-changes.ts";
import { defineParameters } from "../contract/define-parameters.ts";
import { parsedText } from "../contract/parameters.ts";
import type { ParameterError } from "../problem.ts";
import type { Shards } from "../shards/shards.ts";
import { validateNetworks } from "../wallets/wallet-parameters.ts";
import { hasPublicForm, hostOf, isPublicAddress } from "./receiver-address.ts";
import type { NewWebhook } from "./webhooks.ts";

const MAX_URL_LENGTH = 2_000;

const parseUrl = (text: string): URL | undefined => {
  const url = text.length <= MAX_URL_LENGTH && URL.canParse(text) ? new URL(text) : undefined;
  return url && !url.username && !url.password && /^https?:$/.test(url.protocol) ? url : undefined;
};

/** Accepts what can be reached without allowed networks. Names are looked up when a message is sent. */
const isPublicUrl = (url: URL): boolean => {
  const host = hostOf(url);
  return hasPublicForm(url) && (isIP(host) === 0 || isPublicAddress(host));
};

const ownUrl = parsedText(
  `must be an https:// URL without a port, a user name or a password, at a public address, of at most ${MAX_URL_LENGTH} characters`,
  (text) => {
    const url = parseUrl(text);
    return url && isPublicUrl(url) ? url.href : undefined;
  },
);

const anyUrl = parsedText(
  `must be an http:// or https:// URL without a user name or a password, of at most ${MAX_URL_LENGTH} characters`,
  (text) => parseUrl(text)?.href,
);

type Texts = (name: string) => readonly string[];

const operatorQuery = { ...changeQuery, url: anyUrl, cursor: changeCursor };

/** Creates a function that reads what an owner of the developer page wants to be told of, and where. */
export const createOwnersReader = (
  shards: Shards,
  allowedNetworks: BlockList | null,
): ((texts: Texts) => NewWebhook) => {
  const { readTexts } = defineParameters({
    // Without a cursor: an owner could make the service send the whole log to another server.
    query: { ...changeQuery, url: allowedNetworks ? anyUrl : ownUrl },
    lists: ["chainId"],
    validate: (values) => validateNetworks(shards, { ...values, chains: [] }),
  });
  return (texts) => {
    const { url, chainId, finality, ...filters } = readTexts(texts);
    return { url, chainId, finality, filters };
  };
};

const { readTexts: readOperators } = defineParameters({
  query: operatorQuery,
  lists: ["chainId"],
  validate: ({ chainId = [] }): ParameterError[] =>
    chainId.some((id) => !networks.has(id))
      ? [{ parameter: "chainId", message: "names a chain without a registry" }]
      : [],
});

/** Reads the same from an operator, who may name where to start. */
export const readOperatorsWebhook = (texts: Texts): NewWebhook => {
  const { url, chainId, finality, cursor, ...filters } = readOperators(texts);
  const question = { url, chainId, finality, filters };
  if (typeof cursor !== "object") return { ...question, cursor };
  const [text] = texts("cursor");
  if (cursor.question !== nameChanges(chainId, finality, filters))
    throw new Error("The cursor is of another question.");
  return { ...question, cursor: text };
};
