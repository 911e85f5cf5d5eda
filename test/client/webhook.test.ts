import { randomBytes } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { describe, expect, test } from "vitest";
import { RegistryError } from "../../client/src/index.ts";
import { verifyWebhook } from "../../client/src/webhook.ts";
import { readChangesPage } from "../support/changes.ts";
import { test as withParts } from "../support/test.ts";

const createSecret = () => `whsec_${randomBytes(32).toString("base64")}`;
const SECRET = createSecret();
const OLD = createSecret();

const MAX = 2n ** 256n - 1n;
const UNDONE = {
  type: "delegation.undone",
  timestamp: "2026-01-31T12:00:00.000Z",
  data: { chainId: 1, afterBlock: 21_000_000 },
};

type Message = { id: string; timestamp: string; signature: string; body: string };

/** Signs a message with another program than the one under test. */
const signMessage = (message: unknown, { secret = SECRET, signedAt = new Date() } = {}): Message => {
  const body = typeof message === "string" ? message : JSON.stringify(message);
  const id = "msg_1";
  const timestamp = String(Math.floor(signedAt.getTime() / 1000));
  return { id, timestamp, signature: new Webhook(secret).sign(id, signedAt, body), body };
};

const headersOf = ({ id, timestamp, signature }: Message) => ({
  "webhook-id": id,
  "webhook-timestamp": timestamp,
  "webhook-signature": signature,
});

const toRequest = (message: Message): Request =>
  new Request("http://receiver/hook", { method: "POST", headers: headersOf(message), body: message.body });

const expectRefused = async (verified: Promise<unknown>, reason: string | RegExp) => {
  const error = await verified.then(
    () => null,
    (error: unknown) => error,
  );
  expect(error).toBeInstanceOf(RegistryError);
  expect(error).toMatchObject({ isRetryable: false, message: expect.stringMatching(reason) });
};

withParts("a change has exact numbers, as a Fetch request and as headers with a body", async ({ samples }) => {
  const { changes } = await readChangesPage(samples, "?finality=latest&cursor=start&type=TOKEN&limit=1");
  const data = { ...changes[0], amount: MAX.toString() };
  const message = signMessage({ ...UNDONE, type: "delegation.changed", data });
  const expected = {
    id: message.id,
    type: "delegation.changed",
    timestamp: UNDONE.timestamp,
    data: {
      ...data,
      amount: MAX,
      tokenId: BigInt(data.tokenId ?? 0),
      blockNumber: BigInt(data.blockNumber ?? -1),
      blockTimestamp: BigInt(data.blockTimestamp ?? -1),
    },
  };
  expect(await verifyWebhook(toRequest(message), SECRET)).toEqual(expected);
  for (const body of [message.body, Buffer.from(message.body)]) {
    expect(await verifyWebhook({ headers: headersOf(message), body }, SECRET)).toEqual(expected);
  }
});

test("headers of a copy of Fetch's class are read as those of Fetch", async () => {
  const signed = signMessage(UNDONE);
  const found = new Headers(headersOf(signed));
  const headers = { get: (name: string) => found.get(name) } as unknown as Headers;
  expect(await verifyWebhook({ headers, body: signed.body }, SECRET)).toEqual({ id: "msg_1", ...UNDONE });
});

test("an undo has its network and block", async () => {
  expect(await verifyWebhook(toRequest(signMessage(UNDONE)), SECRET)).toEqual({ id: "msg_1", ...UNDONE });
});

test("a test is a message too", async () => {
  const sent = { ...UNDONE, type: "webhook.test", data: { webhook: "wh_1" } };
  expect(await verifyWebhook(toRequest(signMessage(sent)), SECRET)).toEqual({ id: "msg_1", ...sent });
});

describe("while one secret replaces another", () => {
  const current = signMessage(UNDONE);
  const old = signMessage(UNDONE, { secret: OLD });

  test("a receiver may have both", async () => {
    for (const message of [current, old]) await verifyWebhook(toRequest(message), [SECRET, OLD]);
  });

  test("a message may have signatures of both, and of later versions", async () => {
    const signature = `v2,other ${old.signature} ${current.signature}`;
    for (const secret of [SECRET, OLD]) await verifyWebhook(toRequest({ ...current, signature }), secret);
  });
});

describe("refuses", () => {
  const signed = signMessage(UNDONE);

  test.for<[string, Partial<Message>]>([
    ["another body", { body: signed.body.replace("21000000", "21000001") }],
    ["a body with a space more", { body: `${signed.body} ` }],
    ["another id", { id: "msg_2" }],
    ["another time", { timestamp: String(Number(signed.timestamp) - 1) }],
    ["a part of the signature", { signature: signed.signature.slice(0, -1) }],
    ["more than the signature", { signature: `${signed.signature}=` }],
    ["no signature after the version", { signature: "v1," }],
    ["the signature under another version", { signature: signed.signature.replace("v1,", "v2,") }],
    ["the signature of another message", { signature: signMessage({ ...UNDONE, data: null }).signature }],
  ])("%s", ([, changed]) => expectRefused(verifyWebhook(toRequest({ ...signed, ...changed }), SECRET), /No signature/));

  test("a change of any byte of the body", async () => {
    const body = Buffer.from(signed.body);
    for (const index of body.keys()) {
      const changed = Buffer.from(body);
      changed[index] = (changed[index] ?? 0) ^ 1;
      await expectRefused(verifyWebhook({ headers: headersOf(signed), body: changed }, SECRET), /No signature/);
    }
  });

  test("another secret", () => expectRefused(verifyWebhook(toRequest(signed), OLD), /No signature/));

  test.for(["webhook-id", "webhook-timestamp", "webhook-signature"])("a message without %s", (name) => {
    const { [name]: _, ...headers } = headersOf(signed) as Record<string, string>;
    return expectRefused(verifyWebhook({ headers, body: signed.body }, SECRET), `no header ${name}`);
  });

  test.for([-301_000, 301_000])("a message signed %i ms from now", (ms) => {
    const message = signMessage(UNDONE, { signedAt: new Date(Date.now() + ms) });
    return expectRefused(verifyWebhook(toRequest(message), SECRET), /five minutes/);
  });

  test.for(["", "soon", "-1", "1e9", "Infinity", "0x7fffffff"])("%j for a time", (timestamp) =>
    expectRefused(verifyWebhook(toRequest({ ...signed, timestamp }), SECRET), /five minutes|no header/),
  );

  test.for(["", "whsec_", "whsec_????", "whsec_A", SECRET.replace("whsec_", "")])("the secret %j", async (secret) => {
    await expectRefused(verifyWebhook(toRequest(signed), secret), /^(?!.*whsec_[A-Z?]).*secret/);
    await expectRefused(verifyWebhook(toRequest(signed), [SECRET, secret]), /secret/);
  });

  test("no secret at all", () => expectRefused(verifyWebhook(toRequest(signed), []), /no secret/));

  test.for([
    "not JSON",
    "null",
    { ...UNDONE, type: "delegation.later" },
    { ...UNDONE, timestamp: 1 },
    { ...UNDONE, data: { chainId: 1 } },
    { ...UNDONE, data: null },
    { ...UNDONE, type: "delegation.changed" },
    { ...UNDONE, type: "delegation.changed", data: { blockNumber: 1, amount: 1e21 } },
  ])("what is signed and not a message: %j", (message) =>
    expectRefused(verifyWebhook(toRequest(signMessage(message)), SECRET), /known/),
  );
});
