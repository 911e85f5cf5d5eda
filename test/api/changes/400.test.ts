import { expect } from "vitest";
import { HOT } from "../../support/api.ts";
import { openStream, readChangesPage } from "../../support/changes.ts";
import { test } from "../../support/test.ts";

const ask = async (
  api: { get: (path: string, init?: RequestInit) => Promise<Response> },
  query: string,
  headers = {},
) => {
  const response = await api.get(`/changes${query}`, { headers });
  const { errors = [] } = (await response.json()) as { errors?: { parameter: string; message: string }[] };
  return { status: response.status, errors: errors.map(({ parameter }) => parameter) };
};

const STREAM = { Accept: "text/event-stream" };

test("every bad parameter at once, for pages and streams", async ({ samples }) => {
  const query =
    "?chainId=one&registry=v3&wallet=1&vault=2&delegate=3&contract=4&type=NONE&finality=soon&cursor=x&limit=0";
  const errors = [
    "chainId",
    "registry",
    "wallet",
    "vault",
    "delegate",
    "contract",
    "type",
    "finality",
    "cursor",
    "limit",
  ];
  for (const headers of [{}, STREAM]) expect(await ask(samples, query, headers)).toEqual({ status: 400, errors });
  expect(await ask(samples, "?chainId=5")).toEqual({ status: 400, errors: ["chainId"] });
  expect(await ask(samples, "?block=1&timestamp=2")).toEqual({ status: 400, errors: ["block", "timestamp"] });
});

test("other parameters are ignored", async ({ samples }) => {
  await readChangesPage(samples, "?unknown=%!s(MISSING)");
});

test("a cursor of another question", async ({ samples }) => {
  const { next } = await readChangesPage(samples, `?finality=latest&wallet=${HOT}`);
  expect((await samples.get(`/changes?finality=latest&wallet=${HOT}&limit=5&cursor=${next}`)).status).toBe(200);
  for (const query of [`?wallet=${HOT}`, "?finality=latest", `?finality=latest&wallet=${HOT}&chainId=1`]) {
    expect(await ask(samples, `${query}&cursor=${next}`), query).toEqual({ status: 400, errors: ["cursor"] });
    expect(await ask(samples, query, { ...STREAM, "Last-Event-ID": next }), query).toEqual({
      status: 400,
      errors: ["Last-Event-ID"],
    });
  }
});

test("a cursor that cannot be read", async ({ samples }) => {
  const { next } = await readChangesPage(samples, "?finality=latest&chainId=1");
  const name = next.split("~", 1)[0];
  const positions = [
    "1", // without a block
    "1.", // the same
    "1.1~1.2", // twice the same
    "1.1-5", // deeper than its block
    "1.zzzz-zzz", // deeper than any block that is not final
    "1.1.zzzzzzzz.0", // no log index
    "1.1.1", // without an ordinal
    "1.zzzzzzzzzzz", // too large a block
    "1.5-1.short", // a hash of another length
  ];
  for (const position of positions) {
    const cursor = `${name}~0~${position}`;
    expect(await ask(samples, `?finality=latest&chainId=1&cursor=${cursor}`), cursor).toEqual({
      status: 400,
      errors: ["cursor"],
    });
  }
  for (const cursor of ["", "end", `${name}`, "~".repeat(2_000), Buffer.from("v1.1").toString("base64url")]) {
    expect(await ask(samples, `?finality=latest&chainId=1&cursor=${cursor}`), cursor).toEqual({
      status: 400,
      errors: ["cursor"],
    });
  }
  expect(await ask(samples, "", { ...STREAM, "Last-Event-ID": "start" })).toEqual({
    status: 400,
    errors: ["Last-Event-ID"],
  });
});

test("a cursor with networks that are not known goes on with the others, and keeps their places", async ({
  samples,
}) => {
  const all = "?finality=latest";
  const { changes } = await readChangesPage(samples, `${all}&limit=1000&cursor=start`);
  const { next } = await readChangesPage(samples, `${all}&limit=1&cursor=start`);
  // One without a registry, as of another version, and one that is not indexed here.
  for (const chainId of [2, 10]) {
    const place = `~${chainId.toString(36)}.5-3.${"x".repeat(22)}`;
    const page = await readChangesPage(samples, `${all}&limit=1000&cursor=${next}${place}`);
    expect(page.changes).toEqual(changes.slice(1));
    expect(page.next).toContain(place);
    const stream = await openStream(samples, all, `${next}${place}`);
    const [first] = await stream.readUntil(() => true);
    expect(first?.id).toContain(place);
    stream.close();
    expect(await ask(samples, `${all}&cursor=${next}${place}${place}`)).toEqual({ status: 400, errors: ["cursor"] });
  }
});

test("a cursor with positions that nobody had is answered with what is there", async ({ samples }) => {
  const { next } = await readChangesPage(samples, "?finality=latest&chainId=1");
  const name = next.split("~", 1)[0];
  const page = await readChangesPage(samples, `?finality=latest&chainId=1&cursor=${name}~0~1.a-3.${"x".repeat(22)}`);
  expect(page.undo).toEqual([{ chainId: 1, afterBlock: 7 }]);
  expect(page.changes[0]?.blockNumber).toBe(8);
});
