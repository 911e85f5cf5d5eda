import { expect, test } from "vitest";
import { CHECK, VAULT } from "../support/api.ts";
import { startHeldBackfill } from "../support/held-backfill.ts";
import { until } from "../support/setup.ts";

test("an indexer that has not finished its backfill: 503 with how far it is, then answers", async () => {
  const { api, release } = await startHeldBackfill();
  const ask = async (path: string) => {
    const response = await api.get(path);
    return { status: response.status, body: await response.text() };
  };
  const [check, list] = [`${CHECK}&chainId=8453`, `/registry/v1/${VAULT}?chainId=8453`];

  const isNamed = ({ body }: { body: string }) => /Base\) is still being indexed/.test(body);
  const refused = await until("the indexer has said what it indexes", () => ask(check), 60, isNamed);
  expect(refused).toEqual({ status: 503, body: expect.stringMatching(/problem-not-indexed.* block \d+ of 3\d/) });
  expect(await ask(list)).toEqual({ status: 503, body: expect.stringMatching(/Base\) is still being indexed/) });
  expect((await ask(CHECK)).status, "a network that it does not index").toBe(400);

  release();
  for (const path of [check, list, "/ready"]) {
    await until(
      `${path} is answered`,
      () => ask(path),
      120,
      ({ status }) => status === 200,
    );
  }
});
