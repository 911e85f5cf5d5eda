import { execFile } from "node:child_process";
import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isUp } from "../../../process/is-up.ts";
import { CHECK, createSampleDatabase, FRESH_FOR_A_DAY, VAULT } from "../../support/api.ts";
import { type Container, createHost, type Host, readCompose, sendRequest } from "../../support/compose.ts";
import { describeWithPrograms } from "../../support/programs.ts";
import { ROOT } from "../../support/run.ts";
import { waitUntil } from "../../support/setup.ts";

// API containers and the proxy of docker-compose.yml, as processes, under load.

const CLIENTS = 8;
const LIST = `/registry/v2/${VAULT}`;

describeWithPrograms(["docker-compose", "python3", "nginx", "redis-server"], "a rolling restart", () => {
  let host: Host;
  let databaseUrl: string;
  let key: string;
  let list: string;
  const apis: Container[] = [];

  const startApi = async () => {
    const api = await host.start("api");
    await untilHealthy(api);
    return api;
  };
  /** Polls /health like the health check, without a process for each request. */
  const untilHealthy = ({ url, output }: Container) =>
    waitUntil("it is healthy", () => isUp(`${url}/health`), 60).catch((error) => {
      throw new Error(output(), { cause: error });
    });

  const startHost = async (ghosts: string[] = []) => {
    await host?.stop();
    host = await createHost({
      compose: readCompose({ env: FRESH_FOR_A_DAY }),
      databaseUrl: () => databaseUrl,
      ghosts,
    });
    await host.start("valkey");
    await host.start("proxy");
  };

  beforeAll(async () => {
    databaseUrl = await createSampleDatabase();
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, DATABASE_URL: databaseUrl };
    const words = ["run", "-s", "keys", "--", "create", "--name", "load"];
    key = (await promisify(execFile)("npm", words, { cwd: ROOT, env })).stdout.trim();
    await startHost();
    apis.push(await startApi(), await startApi());
    await waitUntil("the proxy answers", async () => (await fetch(`${host.url}/health`)).ok, 30);
    list = await (await fetch(`${host.url}${LIST}`, { headers: { "X-API-KEY": key } })).text();
    expect(JSON.parse(list)).not.toHaveLength(0);
  }, 300_000);
  afterAll(() => host?.stop());

  /** Sends requests continuously over kept-alive connections, and collects every wrong answer. */
  const startLoad = () => {
    const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });
    const failures: string[] = [];
    let answers = 0;
    let slowestMs = 0;
    let isOver = false;
    const client = async (number: number) => {
      for (let round = number; !isOver; round++) {
        const path = round % 4 === 0 ? LIST : CHECK;
        const startedAt = performance.now();
        try {
          const { status, body } = await sendRequest(host.url, path, { agent, headers: { "X-API-KEY": key } });
          if (status !== 200 || body !== (path === LIST ? list : "true"))
            failures.push(`${status} ${body.slice(0, 200)}`);
        } catch (error) {
          failures.push(String(error));
        }
        answers++;
        slowestMs = Math.max(slowestMs, performance.now() - startedAt);
      }
    };
    const clients = Promise.all(Array.from({ length: CLIENTS }, (_, number) => client(number)));
    return {
      end: async () => {
        isOver = true;
        await clients;
        agent.destroy();
        return { failures, answers, slowestMs };
      },
    };
  };

  test("of all API containers, one by one, fails no request", async () => {
    const running = startLoad();
    await sleep(500);
    for (let round = 0; round < 2; round++) {
      for (const [index, api] of apis.entries()) {
        expect(await api.stop()).toBe(0);
        apis[index] = await startApi();
        // The proxy resolves the name every second.
        await sleep(1500);
      }
    }
    const { failures, answers, slowestMs } = await running.end();
    expect(failures).toEqual([]);
    expect(answers).toBeGreaterThan(1000);
    expect(slowestMs).toBeLessThan(2000);
  });

  test("fails no request while containers are added and removed", async () => {
    const running = startLoad();
    const more = await Promise.all([host.start("api"), host.start("api")]);
    for (const api of more) await untilHealthy(api);
    await sleep(1500);
    expect(await Promise.all(more.map(({ stop }) => stop()))).toEqual([0, 0]);
    await sleep(500);
    expect((await running.end()).failures).toEqual([]);
  });

  test("fails no request while the name server returns the address of a stopped container", async () => {
    // TEST-NET-1 of RFC 5737: no machine has this address.
    await startHost(["192.0.2.1"]);
    apis.push(await startApi());
    const running = startLoad();
    await sleep(3000);
    const { failures, slowestMs } = await running.end();
    expect(failures).toEqual([]);
    expect(slowestMs).toBeLessThan(3000);
  });
});
