import { once } from "node:events";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { expect } from "vitest";
import { FRESH_FOR_A_DAY, startTestApi } from "../../support/api.ts";
import { openStream, readChangesPage } from "../../support/changes.ts";
import { startChangedSamples } from "../../support/index-copy.ts";
import { test } from "../../support/test.ts";

const STREAM = { Accept: "text/event-stream" };

test("a network that cannot be answered for", async () => {
  const { api, database, schema } = await startChangedSamples(async (database, schema) => {
    await database.query(`create table missing as select * from ${schema}.indexed_block where chain_id = 137`);
    await database.query(`delete from ${schema}.indexed_block where chain_id = 137`);
  });
  const page = await api.get("/changes?finality=latest&cursor=start");
  expect(page.status).toBe(503);
  expect(await page.json()).toMatchObject({
    detail: expect.stringMatching(/^Chain 137 \(Polygon\) is still being indexed/),
  });
  for (const headers of [{}, STREAM]) {
    expect((await api.get("/changes?chainId=137", { headers })).status, "no network is left").toBe(503);
  }

  const part = await readChangesPage(api, "?finality=latest&partial=true&limit=1000&cursor=start");
  expect(part.unanswered).toMatchObject([{ chainId: 137, problem: { status: 503 } }]);
  expect(Object.keys(part.blocks)).toEqual(["1"]);
  expect(part.changes.every(({ chainId }) => chainId === 1)).toBe(true);

  // A stream goes on with the others, and has the rest when it is there.
  const stream = await openStream(api, "?finality=latest&cursor=start");
  const known = await stream.readUntil(({ event, data }) => event === "progress" && data.blocks[1] !== undefined);
  for (const each of known) {
    if (each.event === "progress") expect(Object.keys(each.data.blocks)).toEqual(["1"]);
  }
  await database.query(`insert into ${schema}.indexed_block select * from missing`);
  const added = await stream.readUntil(({ event, data }) => event === "progress" && data.blocks[137] !== undefined);
  const { rows } = await database.query(
    "select count(*)::int as count from registry.delegation_change where chain_id = 137",
  );
  expect(added.filter(({ event }) => event === "change")).toHaveLength(rows[0].count);
  const rest = await readChangesPage(api, `?finality=latest&limit=1000&cursor=${part.next}`);
  expect(rest.changes).toHaveLength(rows[0].count);
});

test("an index that has not reached a cursor's final block again", async ({ samples }) => {
  const { next } = await readChangesPage(samples, "?finality=latest&chainId=1");
  const [name, since] = next.split("~");
  const response = await samples.get(`/changes?finality=latest&chainId=1&cursor=${name}~${since}~1.zzzz`);
  expect(response.status).toBe(503);
  expect(await response.json()).toMatchObject({
    detail: "Chain 1 (Ethereum) is not indexed up to block 1679615 again yet.",
  });
});

test("an index that is behind its chain has final changes only", async () => {
  const { api } = await startChangedSamples(async () => {}, { MAX_INDEX_LAG_SECONDS: "1" });
  expect((await api.get("/changes?finality=latest")).status).toBe(503);
  expect((await api.get("/changes?finality=latest", { headers: STREAM })).status).toBe(503);
  expect((await api.get("/changes")).status).toBe(200);
});

test("a process that stops opens no stream, which nothing would end", async ({ databaseUrl }) => {
  const api = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  const socket = connect(api.port, "127.0.0.1");
  await once(socket, "connect");
  socket.write("GET /changes?finality=latest HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n");
  // Connections are accepted in their order.
  expect((await api.get("/health")).status).toBe(200);
  const stopped = api.stop();
  socket.write("\r\n");
  const response = await text(socket);
  await stopped;
  expect(response).toMatch(/^HTTP\/1\.1 503 /);
  expect(response).toContain("#problem-overloaded");
});
