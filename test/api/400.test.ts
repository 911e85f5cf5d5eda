import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AIRDROP, type Api, COIN, FRIEND, GUEST, HOT, launchSampleApi, NFT, VAULT } from "../support/api.ts";

// Every request here is a good one with something spoiled, so that nothing else can be what is refused.

let api: Api;
beforeAll(async () => {
  api = await launchSampleApi();
});
afterAll(() => api?.stop());

type Values = Record<string, string>;
type Operation = { path: string; required: Values; optional: Values };

const v1Wallets = { delegate: HOT, vault: VAULT };
const v2Wallets = { to: HOT, from: VAULT };
const token = { contract: NFT, tokenId: "8520" };
const chain = { chainId: "137" };
const rights = { rights: AIRDROP };
const numbers = { numbers: "string" };
const paging = { details: "true", limit: "2" };

const OPERATIONS: Record<string, Operation> = {
  "v1 list": { path: `/registry/v1/${VAULT}`, required: {}, optional: { ...chain, ...numbers, ...paging } },
  "v1 check all": { path: "/registry/v1/check/all", required: v1Wallets, optional: chain },
  "v1 check contract": {
    path: "/registry/v1/check/contract",
    required: { ...v1Wallets, contract: NFT },
    optional: chain,
  },
  "v1 check token": { path: "/registry/v1/check/token", required: { ...v1Wallets, ...token }, optional: chain },
  "v2 list": { path: `/registry/v2/${VAULT}`, required: {}, optional: { ...chain, ...numbers, ...paging } },
  "v2 check all": { path: "/registry/v2/check/all", required: v2Wallets, optional: { ...chain, ...rights } },
  "v2 check contract": {
    path: "/registry/v2/check/contract",
    required: { ...v2Wallets, contract: NFT },
    optional: { ...chain, ...rights },
  },
  "v2 check erc721": {
    path: "/registry/v2/check/erc721",
    required: { ...v1Wallets, ...token },
    optional: { ...chain, ...rights },
  },
  "v2 check erc1155": {
    path: "/registry/v2/check/erc1155",
    required: { ...v1Wallets, ...token },
    optional: { ...chain, ...rights, ...numbers },
  },
  "v2 check erc20": {
    path: "/registry/v2/check/erc20",
    required: { ...v1Wallets, contract: COIN },
    optional: { ...chain, ...rights, ...numbers },
  },
};

const operations = Object.entries(OPERATIONS).map(([name, operation]) => ({ name, ...operation }));

/** Each operation that has a parameter. */
const operationsWith = (...parameters: string[]) =>
  operations.flatMap((operation) =>
    parameters.flatMap((parameter) =>
      parameter in { ...operation.required, ...operation.optional } ? [{ ...operation, parameter }] : [],
    ),
  );

const required = operations.flatMap((operation) =>
  Object.keys(operation.required).map((parameter) => ({ ...operation, parameter })),
);

const encode = (values: Values) =>
  Object.entries(values).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);

/** The operation's good question, without some parameters, and with more at its end, as they are to be sent. */
const question = ({ path, required }: Operation, more: string[] = [], without: string[] = []): string => {
  const values = Object.fromEntries(Object.entries(required).filter(([name]) => !without.includes(name)));
  return `${path}?${[...encode(values), ...more].join("&")}`;
};

type Problem = {
  type: string;
  title: string;
  status: number;
  detail: string;
  errors: { parameter: string; message: string }[];
};

/** The problem that a request is refused with. */
const refusal = async (path: string): Promise<Problem> => {
  const response = await api.get(path);
  expect({ path, status: response.status }).toEqual({ path, status: 400 });
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  return (await response.json()) as Problem;
};

/** 200, or the names of the parameters that a request is refused for. */
const verdict = async (path: string): Promise<number | string[]> => {
  const response = await api.get(path);
  if (response.status !== 400) return response.status;
  const { errors } = (await response.json()) as Problem;
  return errors.map(({ parameter }) => parameter);
};

/** The verdict on each of some values, by value: one that is judged wrongly stands out. */
const verdicts = async (values: readonly string[], path: (value: string) => string) =>
  Object.fromEntries(await Promise.all(values.map(async (value) => [value, await verdict(path(value))])));

const all = (values: readonly string[], expected: number | string[]) =>
  Object.fromEntries(values.map((value) => [value, expected]));

const lower = VAULT.toLowerCase();

const MALFORMED_ADDRESSES = [
  "",
  "0x",
  "0x0",
  "garbage",
  "vitalik.eth",
  "null",
  "undefined",
  lower.slice(0, -1),
  `${lower}0`,
  lower.slice(2),
  `${lower.slice(0, -1)}g`,
  `${lower.slice(0, -1)}é`,
  `${lower.slice(0, -1)}０`,
  ` ${lower}`,
  `${lower} `,
  `${lower}\n`,
  `${lower}\0`,
  `0x${lower}`,
  `00${lower.slice(2)}`,
  `-${lower}`,
  `"${lower}"`,
  `${lower},${lower}`,
  `0x${"0".repeat(64)}`,
  `0x${"f".repeat(1000)}`,
];

const MALFORMED_TOKEN_IDS = [
  "",
  " ",
  "-1",
  "-0",
  "+1",
  "--1",
  "1.5",
  "1.0",
  "1.",
  ".5",
  "1e3",
  "1E3",
  "0x1p3",
  " 1",
  "1 ",
  "1 000",
  "1,000",
  "1_000",
  "1\n",
  "1\0",
  "1n",
  "0x",
  "0X",
  "0xg",
  "0x-1",
  "-0x1",
  "0x1.8",
  "0b1",
  "0o7",
  "x1",
  "ff",
  "one",
  "true",
  "null",
  "NaN",
  "Infinity",
  "١",
  "１",
  (2n ** 256n).toString(),
  `0x1${"0".repeat(64)}`,
  "9".repeat(1000),
];

const MALFORMED_RIGHTS = [
  AIRDROP.slice(0, -1),
  `${AIRDROP}0`,
  `${AIRDROP.slice(0, -1)}g`,
  "0x1",
  "0xairdrop",
  "0XAIRDROP",
  `0x${"0".repeat(63)}`,
  `0x${"0".repeat(65)}`,
  AIRDROP.slice(2),
  ` ${AIRDROP}`,
  "a".repeat(32),
  "é".repeat(16),
  "🔥".repeat(8),
  "a".repeat(1000),
];

const MALFORMED_CHAIN_IDS = [
  "",
  " ",
  "-1",
  "+1",
  "1.0",
  "1.5",
  "1e0",
  "0x1",
  " 1",
  "1 ",
  "1\n",
  "1n",
  "1,137",
  "one",
  "mainnet",
  "null",
  "NaN",
  "١",
  "9".repeat(16),
  "9".repeat(1000),
];

/** Not indexed here; among them networks that have registries, and some that have only one. */
const OTHER_CHAIN_IDS = ["0", "2", "5", "10", "97", "324", "8453", "7777777", "31337", "999999999999999"];

/** A value with one of these cannot be decoded. */
const MALFORMED_ESCAPES = ["%", "%a", "%zz", "%!s(MISSING)", "%u0061", "%ff", "%c3%28", "%c0%80", "%ed%a0%80"];

describe("the question that a test starts from is good", () => {
  test.each(operations)("$name", async (operation) => {
    expect(await verdict(question(operation))).toBe(200);
    expect(await verdict(question(operation, encode(operation.optional)))).toBe(200);
  });
});

describe("a problem document", () => {
  test("names every bad parameter at once, and says of each what is wrong with it", async () => {
    const problem = await refusal(
      "/registry/v2/check/erc1155?delegate=0x1&contract=garbage&tokenId=-1&rights=0x1&chainId=2&numbers=big",
    );
    expect(problem).toEqual({
      type: "/docs#problem-bad-parameter",
      title: "Bad parameter",
      status: 400,
      detail: expect.any(String),
      errors: [
        { parameter: "delegate", message: expect.stringMatching(/40 hex digits/) },
        { parameter: "vault", message: expect.stringMatching(/required/) },
        { parameter: "contract", message: expect.stringMatching(/40 hex digits/) },
        { parameter: "tokenId", message: expect.stringMatching(/2\^256-1/) },
        { parameter: "rights", message: expect.stringMatching(/64 hex digits/) },
        { parameter: "numbers", message: expect.stringMatching(/"number" or "string"/) },
        { parameter: "chainId", message: expect.stringMatching(/not indexed/) },
      ],
    });
  });

  test("tells the same in one sentence each", async () => {
    const { detail, errors } = await refusal("/registry/v1/check/token?delegate=0x1&tokenId=1.5");
    expect(errors).toHaveLength(4);
    for (const { parameter, message } of errors) expect(detail).toContain(`${parameter} ${message}.`);
  });

  test("of a list names every bad parameter at once", async () => {
    for (const version of ["v1", "v2"]) {
      const spoiled = "chainId=one&details=yes&limit=0&numbers=big";
      expect(await verdict(`/registry/${version}/garbage?${spoiled}`)).toEqual([
        "wallet",
        "chainId",
        "details",
        "limit",
        "numbers",
      ]);
    }
  });

  test("is not kept by anybody", async () => {
    const response = await api.get("/registry/v2/check/all");
    expect(response.headers.get("cache-control")).toBe("no-store");
  });

  test("does not repeat what was sent", async () => {
    const { detail, errors } = await refusal("/registry/v2/check/all?to=<script>&from=DROP%20TABLE&rights=0xhello");
    expect(JSON.stringify({ detail, errors })).not.toMatch(/script|DROP|hello/);
  });

  test("has no body where the question was a HEAD", async () => {
    const response = await api.get("/registry/v2/check/all", { method: "HEAD" });
    expect(response.status).toBe(400);
    expect(response.headers.get("content-type")).toBe("application/problem+json");
    expect(await response.text()).toBe("");
  });
});

describe("a required parameter that is missing is named", () => {
  test.each(required)("$name: $parameter", async ({ parameter, ...operation }) => {
    const { errors } = await refusal(question(operation, [], [parameter]));
    expect(errors).toEqual([{ parameter, message: expect.stringMatching(/^is required/) }]);
  });

  test.each(operations)("$name: all of them at once", async (operation) => {
    const names = Object.keys(operation.required);
    expect(await verdict(operation.path)).toEqual(names.length > 0 ? names : 200);
  });

  test("also where its name is spelled in another letter case", async () => {
    expect(await verdict(`/registry/v2/check/all?TO=${HOT}&From=${VAULT}`)).toEqual(["to", "from"]);
  });

  test("v1 knows a delegate and a vault, and no to and from", async () => {
    for (const check of ["all", "contract", "token"]) {
      const path = `/registry/v1/check/${check}?to=${HOT}&from=${VAULT}&contract=${NFT}&tokenId=8520`;
      expect(await verdict(path)).toEqual(["delegate", "vault"]);
    }
  });
});

describe("an address is 0x and 40 hex digits", () => {
  test.each(operationsWith("delegate", "vault", "to", "from", "contract"))("$name: $parameter", async (spoiled) => {
    const { parameter, ...operation } = spoiled;
    const ask = (value: string) => question(operation, encode({ [parameter]: value }), [parameter]);
    expect(await verdicts(MALFORMED_ADDRESSES, ask)).toEqual(all(MALFORMED_ADDRESSES, [parameter]));
  });

  test.each(["v1", "v2"])("%s list: wallet", async (version) => {
    // A path that ends early, or is ended by what would be the address, is another path.
    const values = MALFORMED_ADDRESSES.filter((value) => value !== "");
    const ask = (value: string) => `/registry/${version}/${encodeURIComponent(value)}`;
    expect(await verdicts(values, ask)).toEqual(all(values, ["wallet"]));
  });

  test.each(["v1", "v2"])("%s list: what is no address is a bad wallet, not an unknown path", async (version) => {
    for (const path of ["check", "check/", "garbage", "%", "%zz", "%ff", "..%2f", `${VAULT}%2F`, `${VAULT};v=1`]) {
      expect(await verdict(`/registry/${version}/${path}`), path).toEqual(["wallet"]);
    }
  });

  test("in any letter case, with a right or a wrong checksum or none", async () => {
    const wrongChecksum = VAULT.replace("0xf39Fd", "0xF39fD");
    const spellings = [VAULT, lower, `0x${lower.slice(2).toUpperCase()}`, lower.toUpperCase(), wrongChecksum];
    expect(new Set(spellings)).toHaveProperty("size", 5);
    expect(await verdicts(spellings, (from) => `/registry/v2/check/all?to=${HOT}&from=${from}`)).toEqual(
      all(spellings, 200),
    );
  });
});

describe("a token id is a whole number from 0 to 2^256-1, in decimal or 0x hex digits", () => {
  test.each(operationsWith("tokenId"))("$name", async ({ parameter, ...operation }) => {
    const ask = (value: string) => question(operation, encode({ tokenId: value }), [parameter]);
    expect(await verdicts(MALFORMED_TOKEN_IDS, ask)).toEqual(all(MALFORMED_TOKEN_IDS, ["tokenId"]));
  });

  test.each(operationsWith("tokenId"))("$name: to its very ends", async ({ parameter, ...operation }) => {
    const max = 2n ** 256n - 1n;
    const good = [
      "0",
      "0x0",
      "00",
      "007",
      max.toString(),
      `0x${max.toString(16)}`,
      "0xFf",
      "0X1f",
      `0x${"0".repeat(80)}1`,
    ];
    const ask = (value: string) => question(operation, encode({ tokenId: value }), [parameter]);
    expect(await verdicts(good, ask)).toEqual(all(good, 200));
  });

  test.each(operationsWith("tokenId"))("$name: as it is written in a URL, where + is a space", async (operation) => {
    for (const raw of ["tokenId=+1", "tokenId=1+", "tokenId=%2B1", "tokenId=%201", "tokenId"]) {
      expect(await verdict(question(operation, [raw], ["tokenId"])), raw).toEqual(["tokenId"]);
    }
  });
});

describe("rights are 0x and 64 hex digits, or a text of at most 31 bytes", () => {
  test.each(operationsWith("rights"))("$name", async (operation) => {
    const ask = (value: string) => question(operation, encode({ rights: value }));
    expect(await verdicts(MALFORMED_RIGHTS, ask)).toEqual(all(MALFORMED_RIGHTS, ["rights"]));
  });

  test.each(operationsWith("rights"))("$name: to their very ends", async (operation) => {
    const zero = `0x${"0".repeat(64)}`;
    const good = [
      "",
      "0x",
      "0X",
      zero,
      AIRDROP,
      AIRDROP.toUpperCase(),
      "airdrop",
      " ",
      "a".repeat(31),
      `${"é".repeat(15)}a`,
    ];
    const ask = (value: string) => question(operation, encode({ rights: value }));
    expect(await verdicts(good, ask)).toEqual(all(good, 200));
  });
});

describe("a value that is not properly percent-encoded is refused", () => {
  test.each(required)("$name: $parameter", async ({ parameter, ...operation }) => {
    const ask = (malformed: string) =>
      question(operation, [`${parameter}=${operation.required[parameter]}${malformed}`], [parameter]);
    expect(await verdicts(MALFORMED_ESCAPES, ask)).toEqual(all(MALFORMED_ESCAPES, [parameter]));
  });

  test.each(operationsWith("chainId", "rights", "numbers", "details", "limit"))(
    "$name: $parameter",
    async (spoiled) => {
      const { parameter, ...operation } = spoiled;
      const ask = (malformed: string) => question(operation, [`${parameter}=${malformed}`]);
      expect(await verdicts(MALFORMED_ESCAPES, ask)).toEqual(all(MALFORMED_ESCAPES, [parameter]));
    },
  );
});

describe("a chain id is a decimal integer", () => {
  test.each(operations)("$name", async (operation) => {
    const ask = (value: string) => question(operation, encode({ chainId: value }));
    expect(await verdicts(MALFORMED_CHAIN_IDS, ask)).toEqual(all(MALFORMED_CHAIN_IDS, ["chainId"]));
  });
});

describe("a network that is not indexed is refused, with the names of those that are", () => {
  test.each(operations)("$name", async (operation) => {
    for (const chainId of OTHER_CHAIN_IDS) {
      const { detail, errors } = await refusal(question(operation, [`chainId=${chainId}`]));
      const message = "names a network that is not indexed here; indexed are 1 (Ethereum), 137 (Polygon)";
      expect(errors).toEqual([{ parameter: "chainId", message }]);
      expect(detail).toBe(`chainId ${message}.`);
    }
  });
});

describe("a chain id is given once, even if it is the same again", () => {
  test.each(operations)("$name", async (operation) => {
    for (const repeated of [
      "chainId=1&chainId=1",
      "chainId=1&chainId=137",
      "chainId=&chainId=1",
      "chainId&chainId=1",
    ]) {
      const { errors } = await refusal(question(operation, [repeated]));
      expect(errors, repeated).toEqual([{ parameter: "chainId", message: "must be given once" }]);
    }
  });
});

describe("a parameter that is given twice has to have the same value", () => {
  const OTHER_VALUES: Values = {
    delegate: FRIEND,
    vault: FRIEND,
    to: FRIEND,
    from: FRIEND,
    contract: GUEST,
    tokenId: "8521",
    rights: "claim",
    numbers: "number",
    details: "false",
    limit: "3",
  };
  /** The same value, written in another way. */
  const respell = (parameter: string, value: string) => {
    if (parameter === "rights") return "airdrop";
    if (parameter === "tokenId") return "0x2148";
    return /^0x/.test(value) ? value.toLowerCase() : value;
  };

  test.each(operationsWith(...Object.keys(OTHER_VALUES)))("$name: $parameter", async ({ parameter, ...operation }) => {
    const value = { ...operation.required, ...operation.optional }[parameter] ?? "";
    const ask = (second: string) =>
      question(operation, encode({ [parameter]: value }).concat(encode({ [parameter]: second })), [parameter]);

    expect(await verdict(ask(value)), "the same").toBe(200);
    expect(await verdict(ask(respell(parameter, value))), "the same in other letters").toBe(200);
    expect(await verdict(ask(OTHER_VALUES[parameter] ?? "")), "another").toEqual([parameter]);
    expect(await verdict(ask("0xé")), "a malformed one").toEqual([parameter]);
  });

  test("also the third", async () => {
    const twice = `/registry/v2/check/all?from=${VAULT}&to=${HOT}&to=${HOT}`;
    expect(await verdict(`${twice}&to=${HOT}`)).toBe(200);
    expect(await verdict(`${twice}&to=${FRIEND}`)).toEqual(["to"]);
  });

  test("also where its name is percent-encoded", async () => {
    expect(await verdict(`/registry/v2/check/all?from=${VAULT}&to=${HOT}&%74%6F=${FRIEND}`)).toEqual(["to"]);
  });
});

describe("a v2 parameter that is given in both of its spellings has to have the same value", () => {
  const SPELLINGS: Values = { to: "delegate", from: "vault", delegate: "to", vault: "from" };
  const v2 = operationsWith("to", "from", "delegate", "vault").filter(({ path }) => path.startsWith("/registry/v2/"));

  test.each(v2)("$name: $parameter", async ({ parameter, ...operation }) => {
    const synonym = SPELLINGS[parameter] ?? "";
    const value = operation.required[parameter] ?? "";
    expect(await verdict(question(operation, [`${synonym}=${value}`])), "the same").toBe(200);
    expect(await verdict(question(operation, [`${synonym}=${value.toLowerCase()}`])), "in other letters").toBe(200);
    expect(await verdict(question(operation, [`${synonym}=${GUEST}`])), "another").toEqual([parameter]);
    expect(await verdict(question(operation, [`${synonym}=garbage`])), "a malformed one").toEqual([parameter]);
    expect(await verdict(question(operation, [`${synonym}=garbage`], [parameter])), "alone, by its own name").toEqual([
      synonym,
    ]);
  });
});

describe("numbers is number or string", () => {
  test.each(operationsWith("numbers"))("$name", async (operation) => {
    const ask = (value: string) => question(operation, encode({ numbers: value }));
    const bad = ["", "String", "strings", "bigint", "1", "null"];
    expect(await verdicts(bad, ask)).toEqual(all(bad, ["numbers"]));
    const good = ["number", "string"];
    expect(await verdicts(good, ask)).toEqual(all(good, 200));
  });
});

describe("what pages a list", () => {
  const lists = operations.filter(({ name }) => name.endsWith("list"));

  test.each(lists)("$name: limit is a whole number from 1 to 1000", async (list) => {
    const bad = ["", "0", "-1", "+1", "1001", "99999", "1.5", "1e2", "0x10", " 1", "1 ", "all", "null", "١"];
    expect(await verdicts(bad, (limit) => question(list, encode({ limit })))).toEqual(all(bad, ["limit"]));
    const good = ["1", "999", "1000"];
    expect(await verdicts(good, (limit) => question(list, encode({ limit })))).toEqual(all(good, 200));
  });

  test.each(lists)("$name: details is true or false", async (list) => {
    const bad = ["", "1", "0", "yes", "TRUE", "True", " true", "null"];
    expect(await verdicts(bad, (details) => question(list, encode({ details })))).toEqual(all(bad, ["details"]));
    const good = ["true", "false"];
    expect(await verdicts(good, (details) => question(list, encode({ details })))).toEqual(all(good, 200));
  });

  test.each(lists)("$name: a cursor is one that this very list gave", async (list) => {
    const cursor = await readCursor(`${list.path}?limit=1`);
    expect(await verdict(`${list.path}?limit=1&cursor=${cursor}`)).toBe(200);

    const others = {
      wallet: await readCursor(`${list.path.replace(VAULT, HOT)}?limit=1`),
      chain: await readCursor(`${list.path}?limit=1&chainId=137`),
      version: await readCursor(`${list.path.replace(/v\d/, (version) => (version === "v1" ? "v2" : "v1"))}?limit=1`),
    };
    const bad = [
      "",
      "garbage",
      "0",
      cursor.slice(0, -4),
      cursor.slice(4),
      cursor.toUpperCase(),
      Buffer.from("v2.1.0x0.incoming.1.1").toString("base64url"),
      Buffer.from(`${list.path.slice(10, 12)}.1.${lower}.sideways.1.1`).toString("base64url"),
      Buffer.from(`${list.path.slice(10, 12)}.1.${lower}.incoming.-1.1`).toString("base64url"),
      Buffer.from(`${list.path.slice(10, 12)}.1.${lower}.incoming.${"9".repeat(30)}.1`).toString("base64url"),
      "a".repeat(2000),
      ...Object.values(others),
    ];
    expect(await verdicts(bad, (value) => `${list.path}?limit=1&${encode({ cursor: value })}`)).toEqual(
      all(bad, ["cursor"]),
    );
    expect(
      await verdicts(MALFORMED_ESCAPES, (malformed) => `${list.path}?limit=1&cursor=${cursor}${malformed}`),
    ).toEqual(all(MALFORMED_ESCAPES, ["cursor"]));
  });

  test.each(lists)("$name: a cursor goes with a limit", async (list) => {
    const cursor = await readCursor(`${list.path}?limit=1`);
    expect(await verdict(`${list.path}?cursor=${cursor}`)).toEqual(["cursor"]);
    expect(await verdict(`${list.path}?cursor=garbage`)).toEqual(["cursor"]);
  });

  test.each(lists)("$name: what never was a cursor is named beside a bad wallet", async ({ path }) => {
    const garbage = path.replace(VAULT, "garbage");
    expect(await verdict(`${garbage}?limit=1&cursor=garbage`)).toEqual(["wallet", "cursor"]);
    // A cursor of some list may well have been one of the wallet that is meant.
    expect(await verdict(`${garbage}?limit=1&cursor=${await readCursor(`${path}?limit=1`)}`)).toEqual(["wallet"]);
  });

  test.each(lists)("$name: two cursors cannot both be meant", async (list) => {
    const first = await readCursor(`${list.path}?limit=1`);
    const second = await readCursor(`${list.path}?limit=2`);
    expect(await verdict(`${list.path}?limit=1&cursor=${first}&cursor=${second}`)).toEqual(["cursor"]);
    expect(await verdict(`${list.path}?limit=1&cursor=${first}&cursor=${first}`)).toBe(200);
  });
});

describe("what an operation does not take is never refused", () => {
  test.each(operations)("$name", async (operation) => {
    const taken = { ...operation.required, ...operation.optional };
    const names = ["contract", "tokenId", "rights", "numbers", "details", "limit", "wallet", "apiKey", "chainid"]
      .concat(["__proto__", "constructor", "toString", "0", "", "%", "%zz", "%00", "contract[]"])
      .filter((name) => !(name in taken));
    const values = ["", "garbage", "0x1", "-1", ...MALFORMED_ESCAPES];
    const ask = (name: string) =>
      question(
        operation,
        values.map((value) => `${name}=${value}`),
      );
    expect(await verdicts(names, ask)).toEqual(all(names, 200));
  });
});

/** The cursor to the second page of a list. */
const readCursor = async (path: string): Promise<string> => {
  const response = await api.get(path);
  const [, cursor] = /[?&]cursor=([^&>]+)/.exec(response.headers.get("link") ?? "") ?? [];
  if (!cursor) throw new Error(`${path} has no second page.`);
  return cursor;
};
