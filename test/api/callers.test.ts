import { Agent } from "node:http";
import { afterAll, expect } from "vitest";
import { type Api, CHECK, COIN, GONE, HOT, OTHER, VAULT } from "../support/api.ts";
import { sendHttp } from "../support/http.ts";
import { test } from "../support/test.ts";

// Requests as public programs send them to an API of this shape.

const agent = new Agent({ keepAlive: true, maxSockets: 1 });
afterAll(() => agent.destroy());

/** Sends a request over one connection, with only these headers. */
const send = ({ port }: Api, path: string, headers: Record<string, string> = {}) =>
  sendHttp(port, { path, headers, agent });

const V1_CHECK = `/registry/v1/check/all?delegate=${HOT}&vault=${VAULT}`;

test("a check returns exactly the four bytes true, as a Go client compares the raw body", async ({ samples }) => {
  const { headers, body } = await send(samples, CHECK);
  expect(headers).toMatchObject({ "content-length": "4", "content-type": "application/json" });
  expect(Buffer.from(body)).toEqual(Buffer.from("true"));
});

test.for<[habit: string, path: string, headers?: Record<string, string>]>([
  ["a forgotten argument of a format string, in an unused parameter", `${CHECK}&contract=%!s(MISSING)`],
  ["the same before the others", CHECK.replace("?", "?contract=%!s(MISSING)&")],
  ["the same in several", `${CHECK}&contract=%!s(MISSING)&tokenId=%!d(MISSING)&%!s(MISSING)=%!`],
  ["every parameter, including empty ones", `${CHECK}&contract=&tokenId=&rights=&chainId=1`],
  ["null and undefined for missing values", `${V1_CHECK}&contract=null&tokenId=undefined`],
  ["a slash at the end", CHECK.replace("?", "/?")],
  ["an ampersand at the end", `${CHECK}&`],
  ["ampersands at the start", CHECK.replace("?", "?&&")],
  ["a fragment that looks like a parameter", `${CHECK}#&chainId=5`],
  ["a parameter against caches", `${CHECK}&_=1700000000000`],
  ["more percent-encoding than needed", CHECK.replaceAll("0x", "%30%78")],
  ["JSON as the type of a GET", CHECK, { "Content-Type": "application/json" }],
  ["Accept: application/json", CHECK, { Accept: "application/json" }],
  ["Accept: text/html", CHECK, { Accept: "text/html" }],
  ["Accept: text/plain;q=0.1", CHECK, { Accept: "text/plain;q=0.1" }],
  ["an Accept that makes no sense", CHECK, { Accept: "nonsense" }],
  ["Accept-Encoding", CHECK, { "Accept-Encoding": "gzip, deflate, br, zstd" }],
  ["an ETag that matches everything", CHECK, { "If-None-Match": "*" }],
  ["a date in the future", CHECK, { "If-Modified-Since": new Date(2100, 0).toUTCString() }],
  ["a range", CHECK, { Range: "bytes=0-1" }],
])("a client that sends %s gets the same plain answer", async ([, path, given], { samples }) => {
  const { status, headers, body } = await send(samples, path, given);
  expect([status, body, headers["content-type"]]).toEqual([200, "true", "application/json"]);
  expect(headers["content-encoding"]).toBeUndefined();
});

test("a list ignores the fragment of its URL, even if it looks like a parameter", async ({ samples }) => {
  const list = `/registry/v2/${VAULT}`;
  const chainOf = async (path: string) => JSON.parse((await send(samples, path)).body)[0].chainId;
  expect(await chainOf(`${list}?details=true#&chainId=137`)).toBe(1);
  expect(await chainOf(`${list}?details=true&chainId=137#?chainId=1`)).toBe(137);
  expect((await send(samples, `/registry/v2/${GONE}?`)).body).toBe("[]");
});

test("a JavaScript client reads exact balances with numbers=string, and a falsy 0 without a delegation", async ({
  samples,
}) => {
  const read = async (wallet: string, more = "") =>
    JSON.parse(
      (await send(samples, `/registry/v2/check/erc20?delegate=${wallet}&vault=${OTHER}&contract=${COIN}${more}`)).body,
    );
  expect(BigInt(await read(HOT, "&numbers=string"))).toBe(2n ** 200n);
  expect(Boolean(await read(GONE))).toBe(false);
});

test("a connection is reused, also after a 400", async ({ samples }) => {
  await send(samples, CHECK);
  for (let index = 0; index < 100; index++) {
    const isBad = index % 3 === 0;
    const answer = await send(samples, isBad ? "/registry/v2/check/all" : CHECK);
    expect(answer).toMatchObject({ status: isBad ? 400 : 200, isReused: true });
  }
});
