import { Agent } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  AIRDROP,
  type Api,
  CHECK,
  COIN,
  FRIEND,
  GONE,
  GUEST,
  HOT,
  launchSampleApi,
  NFT,
  OTHER,
  VAULT,
} from "../support/api.ts";
import { sendHttp } from "../support/http.ts";

// The ways in which public programs call an API of this shape. Each would notice a difference.

let api: Api;
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
beforeAll(async () => {
  api = await launchSampleApi();
});
afterAll(() => {
  agent.destroy();
  return api?.stop();
});

/** Over one connection. */
const send = (path: string, headers: Record<string, string> = {}) => sendHttp(api.port, { path, headers, agent });

const ask = async (path: string, headers?: Record<string, string>): Promise<string> => {
  const { status, body } = await send(path, headers);
  expect({ path, status }).toEqual({ path, status: 200 });
  return body;
};

describe("a Go client that compares the raw body with true", () => {
  const isDelegate = async (path: string) => (await ask(path)) === "true";

  test("reads true where there is a delegation", async () => {
    expect(await isDelegate(CHECK)).toBe(true);
    expect(await isDelegate(`/registry/v1/check/all?delegate=${HOT}&vault=${VAULT}`)).toBe(true);
    expect(await isDelegate(`/registry/v2/check/contract?to=${FRIEND}&from=${VAULT}&contract=${NFT}`)).toBe(true);
    expect(
      await isDelegate(`/registry/v2/check/erc721?delegate=${GUEST}&vault=${VAULT}&contract=${NFT}&tokenId=8520`),
    ).toBe(true);
  });

  test("reads anything else where there is none: the four letters and nothing more count", async () => {
    expect(await ask(`/registry/v2/check/all?to=${GONE}&from=${VAULT}`)).toBe("false");
    expect(await ask(`/registry/v1/check/all?delegate=${GONE}&vault=${VAULT}`)).toBe("false");
    expect(await ask(`/registry/v2/check/all?to=${VAULT}&from=${HOT}`)).toBe("false");
  });

  test("gets exactly as many bytes as it is told, as JSON", async () => {
    const { headers, body } = await send(CHECK);
    expect(headers).toMatchObject({ "content-length": "4", "content-type": "application/json" });
    expect(Buffer.from(body)).toEqual(Buffer.from("true"));
  });

  test("forgets an argument of its format string, in a parameter that is not used", async () => {
    expect(await isDelegate(`${CHECK}&contract=%!s(MISSING)`)).toBe(true);
    expect(await isDelegate(CHECK.replace("?", "?contract=%!s(MISSING)&"))).toBe(true);
    expect(await isDelegate(`${CHECK}&contract=%!s(MISSING)&tokenId=%!d(MISSING)&%!s(MISSING)=%!`)).toBe(true);
  });

  test("forgets it in one that is used, and is told so", async () => {
    const path = `/registry/v2/check/contract?to=${HOT}&from=${VAULT}&contract=%!s(MISSING)`;
    const { status, body } = await send(path);
    expect(status).toBe(400);
    expect(JSON.parse(body).errors).toEqual([{ parameter: "contract", message: "is not properly percent-encoded" }]);
  });
});

describe("a client that took its parameters from another operation", () => {
  const erc721 = (wallets: string, tokenId = 8520) =>
    ask(`/registry/v2/check/erc721?${wallets}&contract=${NFT}&tokenId=${tokenId}`);

  test("sends to and from to erc721, and gets the same answer", async () => {
    expect(await erc721(`to=${GUEST}&from=${VAULT}`)).toBe("true");
    expect(await erc721(`delegate=${GUEST}&vault=${VAULT}`)).toBe("true");
    expect(await erc721(`to=${GUEST}&from=${VAULT}`, 8521)).toBe("false");
    // Not the other way round.
    expect(await erc721(`to=${VAULT}&from=${GUEST}`)).toBe("false");
  });

  test("mixes them", async () => {
    expect(await erc721(`to=${GUEST}&vault=${VAULT}`)).toBe("true");
    expect(await erc721(`delegate=${GUEST}&from=${VAULT}`)).toBe("true");
  });

  test("sends both, to be safe", async () => {
    expect(await erc721(`to=${GUEST}&from=${VAULT}&delegate=${GUEST.toLowerCase()}&vault=${VAULT}`)).toBe("true");
  });

  test("sends delegate and vault to every other v2 check", async () => {
    const wallets = `delegate=${HOT}&vault=${VAULT}`;
    expect(await ask(`/registry/v2/check/all?${wallets}`)).toBe("true");
    expect(await ask(`/registry/v2/check/contract?${wallets}&contract=${NFT}`)).toBe("true");
    const guest = `to=${GUEST}&from=${VAULT}`;
    expect(await ask(`/registry/v2/check/erc20?${guest}&contract=${COIN}`)).toBe("250000");
    expect(await ask(`/registry/v2/check/erc1155?${guest}&contract=${NFT}&tokenId=7&rights=${AIRDROP}`)).toBe("5");
  });

  test("sends a right by its name instead of its bytes32", async () => {
    const path = `/registry/v2/check/all?to=${FRIEND}&from=${VAULT}`;
    expect(await ask(path)).toBe("false");
    expect(await ask(`${path}&rights=airdrop`)).toBe("true");
    expect(await ask(`${path}&rights=${AIRDROP}`)).toBe("true");
  });

  test("sends every parameter that it has, the empty ones too", async () => {
    expect(await ask(`${CHECK}&contract=&tokenId=&rights=&chainId=1`)).toBe("true");
    expect(await ask(`/registry/v1/check/all?delegate=${HOT}&vault=${VAULT}&contract=null&tokenId=undefined`)).toBe(
      "true",
    );
  });
});

test("a client that sends the key of its v2 account to v1 is answered there", async () => {
  const path = `/registry/v1/check/all?delegate=${HOT}&vault=${VAULT}`;
  expect(await ask(path, { "X-API-KEY": "0f8fad5b-d9cb-469f-a165-70867728950e" })).toBe("true");
});

describe("wallets as people have them: in lower case, in upper case, checksummed", () => {
  const spellings = (address: string) => [
    address,
    address.toLowerCase(),
    `0x${address.slice(2).toUpperCase()}`,
    address.toUpperCase(),
  ];

  test("a check gives the same answer", async () => {
    for (const hot of spellings(HOT)) {
      for (const vault of spellings(VAULT)) {
        expect(await ask(`/registry/v2/check/all?to=${hot}&from=${vault}`)).toBe("true");
        expect(await ask(`/registry/v1/check/all?delegate=${hot}&vault=${vault}`)).toBe("true");
      }
    }
  });

  test("a contract too", async () => {
    for (const contract of spellings(NFT)) {
      expect(await ask(`/registry/v2/check/contract?to=${FRIEND}&from=${VAULT}&contract=${contract}`)).toBe("true");
    }
  });

  test.each(["v1", "v2"])("a %s list is the same, byte for byte", async (version) => {
    const lists = await Promise.all(spellings(VAULT).map((wallet) => ask(`/registry/${version}/${wallet}`)));
    expect(new Set(lists)).toHaveProperty("size", 1);
    expect(lists[0]).toContain(VAULT);
  });
});

describe("a client that looks for the vault of a hot wallet", () => {
  test.each([
    ["v1", "vault"],
    ["v2", "from"],
  ])("takes the first row of its %s list", async (version, field) => {
    const [first] = JSON.parse(await ask(`/registry/${version}/${HOT}`));
    expect(first[field]).toBe(VAULT);
  });

  test("looks among all rows for those that lead to its wallet", async () => {
    const rows: { type: string; from: string; to: string }[] = JSON.parse(await ask(`/registry/v2/${HOT}`));
    const vaults = rows.filter(({ to, type }) => to === HOT && type === "ALL").map(({ from }) => from);
    expect(vaults).toEqual([VAULT]);
  });

  test("compares in lower case, since it does not trust anybody's spelling", async () => {
    const rows: { delegate: string; vault: string }[] = JSON.parse(await ask(`/registry/v1/${HOT.toLowerCase()}`));
    expect(rows.some(({ vault }) => vault.toLowerCase() === VAULT.toLowerCase())).toBe(true);
  });

  test.each(["v1", "v2"])("asks Array.isArray of its %s list, and maps over it", async (version) => {
    for (const wallet of [VAULT, HOT, GONE, `0x${"0".repeat(40)}`]) {
      expect(Array.isArray(JSON.parse(await ask(`/registry/${version}/${wallet}`)))).toBe(true);
    }
  });

  test.each(["v1", "v2"])("gets [] on %s for a wallet that has none, or none any more", async (version) => {
    for (const wallet of [`0x${"0".repeat(39)}1`, GONE]) expect(await ask(`/registry/${version}/${wallet}`)).toBe("[]");
  });

  test("asks for the other network by its id", async () => {
    for (const chainId of [1, 137]) {
      expect(JSON.parse(await ask(`/registry/v2/${HOT}?chainId=${chainId}`))[0].from).toBe(VAULT);
    }
  });
});

describe("a JavaScript client that reads a balance", () => {
  const balance = `/registry/v2/check/erc20?delegate=${HOT}&vault=${OTHER}&contract=${COIN}`;

  test("parses it with numbers=string, and has all its digits in a BigInt", async () => {
    expect(BigInt(JSON.parse(await ask(`${balance}&numbers=string`)))).toBe(2n ** 200n);
  });

  test("takes the digits as they are", async () => {
    expect(BigInt(await ask(balance))).toBe(2n ** 200n);
  });

  test("reads 0 where there is none, which is false to it", async () => {
    const none = `/registry/v2/check/erc20?delegate=${GONE}&vault=${OTHER}&contract=${COIN}`;
    expect(Boolean(JSON.parse(await ask(none)))).toBe(false);
    expect(BigInt(JSON.parse(await ask(`${none}&numbers=string`)))).toBe(0n);
  });

  test("parses a list with numbers=string, and has all digits of a token id", async () => {
    const rows: { tokenId: string | null }[] = JSON.parse(await ask(`/registry/v2/${OTHER}?numbers=string`));
    expect(rows.map(({ tokenId }) => tokenId)).toContain((2n ** 256n - 1n).toString());
  });

  test("asks with a token id that it has as hex", async () => {
    const path = `/registry/v2/check/erc721?to=${HOT}&from=${OTHER}&contract=${NFT}&tokenId=0x${"f".repeat(64)}`;
    expect(await ask(path)).toBe("true");
  });
});

describe("a client with habits of its own", () => {
  test("says nothing of what it accepts", async () => {
    const { headers, body } = await send(CHECK);
    expect(headers["content-type"]).toBe("application/json");
    expect(body).toBe("true");
  });

  test.each(["application/json", "text/html", "text/plain;q=0.1", "image/png", "nonsense"])(
    "accepts %s, and gets the same",
    async (accept) => {
      const { headers, body } = await send(CHECK, { Accept: accept });
      expect(headers["content-type"]).toBe("application/json");
      expect(body).toBe("true");
    },
  );

  test("would take it compressed, and has its four bytes as they are", async () => {
    const { headers, body } = await send(CHECK, { "Accept-Encoding": "gzip, deflate, br, zstd" });
    expect(headers["content-encoding"]).toBeUndefined();
    expect(body).toBe("true");
  });

  test("says that its GET has JSON in it", async () => {
    expect(await ask(CHECK, { "Content-Type": "application/json" })).toBe("true");
  });

  test("wants only what is new, and gets the answer of now", async () => {
    const headers = { "If-None-Match": "*", "If-Modified-Since": new Date(2100, 0).toUTCString(), Range: "bytes=0-1" };
    expect(await ask(CHECK, headers)).toBe("true");
  });

  test("ends its paths with a slash", async () => {
    expect(await ask(CHECK.replace("?", "/?"))).toBe("true");
    for (const version of ["v1", "v2"]) {
      const list = `/registry/${version}/${VAULT}`;
      expect(await ask(`${list}/`)).toBe(await ask(list));
      expect(await ask(`${list}/?chainId=137`)).toBe(await ask(`${list}?chainId=137`));
    }
  });

  test("leaves an ampersand or a question mark behind", async () => {
    expect(await ask(`${CHECK}&`)).toBe("true");
    expect(await ask(CHECK.replace("?", "?&&"))).toBe("true");
    expect(await ask(`/registry/v2/${GONE}?`)).toBe("[]");
  });

  test("sends its fragment along, which is no part of the question, whatever it looks like", async () => {
    expect(await ask(`${CHECK}#&chainId=5`)).toBe("true");
    const list = `/registry/v2/${VAULT}`;
    expect(await ask(`${list}#?chainId=5`)).toBe(await ask(`${list}?chainId=1`));
    expect(await ask(`${list}?chainId=137#?chainId=1`)).toBe(await ask(`${list}?chainId=137`));
  });

  test("adds a parameter so that nobody has the answer in a cache", async () => {
    expect(await ask(`${CHECK}&_=1700000000000`)).toBe("true");
  });

  test("encodes more than it has to", async () => {
    const encoded = [...VAULT].map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join("");
    expect(await ask(`/registry/v2/check/all?to=${HOT}&from=${encoded}`)).toBe("true");
    expect(await ask(`/registry/v2/${encoded}`)).toBe(await ask(`/registry/v2/${VAULT}`));
  });

  test("asks again and again over one connection", async () => {
    await send(CHECK);
    for (let index = 0; index < 100; index++) {
      // An error does not end it either.
      const path = index % 3 === 0 ? "/registry/v2/check/all" : CHECK;
      expect(await send(path)).toMatchObject({ status: index % 3 === 0 ? 400 : 200, isReused: true });
    }
  });
});
