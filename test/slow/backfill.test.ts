import { expect, test } from "vitest";
import { CHECK, VAULT } from "../support/api.ts";
import { startHeldBackfill } from "../support/indexed-chain.ts";
import { waitUntil } from "../support/setup.ts";

test("checks and lists return 503 with the progress during a backfill, and answers after it", async () => {
  const { api, release } = await startHeldBackfill();
  const ask = async (path: string) => {
    const response = await api.get(path);
    return { status: response.status, body: await response.text() };
  };
  const [check, list] = [`${CHECK}&chainId=8453`, `/registry/v1/${VAULT}?chainId=8453`];

  const isNamed = ({ body }: { body: string }) => /Base\) is still being indexed/.test(body);
  const refused = await waitUntil("the indexer has stored its chains", () => ask(check), 60, isNamed);
  expect(refused).toEqual({ status: 503, body: expect.stringMatching(/problem-not-indexed.* block \d+ of 3\d/) });
  expect(await ask(list)).toEqual({ status: 503, body: expect.stringMatching(/Base\) is still being indexed/) });
  expect((await ask(CHECK)).status, "a network that is not indexed").toBe(400);

  release();
  for (const path of [check, list, "/ready"]) {
    await waitUntil(
      `${path} is answered`,
      () => ask(path),
      120,
      ({ status }) => status === 200,
    );
  }
});
