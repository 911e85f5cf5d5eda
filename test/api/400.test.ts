import { describe, expect } from "vitest";
import { AIRDROP, type Api, COIN, FRIEND, GUEST, HOT, NFT, VAULT } from "../support/api.ts";
import { test } from "../support/test.ts";

const lower = VAULT.toLowerCase();
const MAX = 2n ** 256n - 1n;
const words = (text: string) => text.split(" ");

/** Invalid percent-encodings. */
const BAD_ESCAPES = ["%", "%a", "%zz", "%!s(MISSING)", "%u0061", "%ff", "%c3%28", "%c0%80", "%ed%a0%80"];

/** Values of a parameter. Questions use the first good one; `other` is a good value with another meaning. */
type Values = { good: string[]; bad: string[]; other?: string; respelled?: string };

const address = (good: string, other: string): Values => ({
  good: [good, good.toLowerCase(), good.toUpperCase(), `0x${good.slice(2).toUpperCase()}`, wrongChecksum(good)],
  bad: [
    ...["", "0x", "0x0", "garbage", "vitalik.eth", "null", "undefined"],
    ...[lower.slice(0, -1), `${lower}0`, lower.slice(2), `0x${lower}`, `00${lower.slice(2)}`, `-${lower}`],
    ...["g", "é", "０"].map((letter) => `${lower.slice(0, -1)}${letter}`),
    ...[` ${lower}`, `${lower} `, `${lower}\n`, `${lower}\0`, `"${lower}"`, `${lower},${lower}`],
    ...[`0x${"0".repeat(64)}`, `0x${"f".repeat(200)}`],
  ],
  other,
  respelled: good.toLowerCase(),
});

const wrongChecksum = (good: string) =>
  good.replace(/[a-f]/i, (letter) => (letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase()));

const VALUES: Record<string, Values> = {
  delegate: address(HOT, FRIEND),
  to: address(HOT, FRIEND),
  vault: address(VAULT, FRIEND),
  from: address(VAULT, FRIEND),
  contract: address(NFT, GUEST),
  tokenId: {
    good: ["8520", "0", "0x0", "00", "007", `${MAX}`, `0x${MAX.toString(16)}`, "0xFf", "0X1f", `0x${"0".repeat(63)}1`],
    bad: [
      ...["", " ", "-1", "-0", "+1", "--1", "1.5", "1.0", "1.", ".5", "1e3", "1E3", "0x1p3", " 1", "1 ", "1 000"],
      ...["1,000", "1_000", "1\n", "1\0", "1n", "0x", "0X", "0xg", "0x-1", "-0x1", "0x1.8", "0b1", "0o7", "x1", "ff"],
      ...["one", "true", "null", "NaN", "Infinity", "١", "１", `${MAX + 1n}`, `0x1${"0".repeat(64)}`, "9".repeat(200)],
      // Digits are counted before they are converted.
      ...[`0x${"0".repeat(64)}1`, `${"0".repeat(78)}1`],
    ],
    other: "8521",
    respelled: "0x2148",
  },
  rights: {
    good: [
      ...[AIRDROP, "", "0x", "0X", `0x${"0".repeat(64)}`, AIRDROP.toUpperCase(), "airdrop", " "],
      ...["a".repeat(31), `${"é".repeat(15)}a`],
    ],
    bad: [
      ...[AIRDROP.slice(0, -1), `${AIRDROP}0`, `${AIRDROP.slice(0, -1)}g`, AIRDROP.slice(2), ` ${AIRDROP}`],
      ...["0x1", "0xairdrop", "0XAIRDROP", `0x${"0".repeat(63)}`, `0x${"0".repeat(65)}`],
      ...["a".repeat(32), "é".repeat(16), "🔥".repeat(8), "a".repeat(200)],
    ],
    other: "claim",
    respelled: "airdrop",
  },
  chainId: {
    good: ["1", "137"],
    bad: [
      ...["", " ", "-1", "+1", "1.0", "1.5", "1e0", "0x1", " 1", "1 ", "1\n", "1n", "1,137", "one", "mainnet"],
      ...["null", "NaN", "١", "9".repeat(16), "9".repeat(200)],
    ],
  },
  numbers: { good: ["string", "number"], bad: ["", "String", "strings", "bigint", "1", "null"], other: "number" },
  details: { good: ["true", "false"], bad: words(" 1 0 yes TRUE True null").concat(" true"), other: "false" },
  limit: {
    good: ["2", "1", "999", "1000"],
    bad: words(" 0 -1 +1 1001 99999 1.5 1e2 0x10 all null ١").concat(" 1", "1 "),
    other: "3",
  },
};

type Operation = { path: string; required: string[]; optional: string[] };

const operation = (path: string, required: string, optional: string): Operation => ({
  path: `/registry/${path}`,
  required: required.split(" ").filter(Boolean),
  optional: optional.split(" "),
});

/** Every operation with its parameters, in the order in which a problem document names them. */
const OPERATIONS = [
  operation(`v1/${VAULT}`, "", "chainId details limit numbers"),
  operation("v1/check/all", "delegate vault", "chainId"),
  operation("v1/check/contract", "delegate vault contract", "chainId"),
  operation("v1/check/token", "delegate vault contract tokenId", "chainId"),
  operation(`v2/${VAULT}`, "", "chainId details limit numbers"),
  operation("v2/check/all", "to from", "rights chainId"),
  operation("v2/check/contract", "to from contract", "rights chainId"),
  operation("v2/check/erc721", "delegate vault contract tokenId", "rights chainId"),
  operation("v2/check/erc1155", "delegate vault contract tokenId", "rights chainId numbers"),
  operation("v2/check/erc20", "delegate vault contract", "rights chainId numbers"),
];
const LISTS = OPERATIONS.filter(({ required }) => required.length === 0);
const V2_CHECKS = OPERATIONS.filter(({ path }) => path.startsWith("/registry/v2/check"));

const valuesOf = (parameter: string): Values => VALUES[parameter] ?? { good: [], bad: [] };
const goodOf = (parameter: string): string => valuesOf(parameter).good[0] ?? "";
const write = (parameter: string, value: string) => `${parameter}=${encodeURIComponent(value)}`;

/** Builds a request with good values of all required parameters, except `without`, and with `more`. */
const question = ({ path, required }: Operation, more: string[] = [], without: string[] = []): string =>
  `${path}?${[...required.filter((name) => !without.includes(name)).map((name) => write(name, goodOf(name))), ...more].join("&")}`;

type Problem = {
  type: string;
  title: string;
  status: number;
  detail: string;
  errors: { parameter: string; message: string }[];
};

const refusal = async (api: Api, path: string): Promise<Problem> => {
  const response = await api.get(path);
  expect({ path, status: response.status }).toEqual({ path, status: 400 });
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  return (await response.json()) as Problem;
};

/** Returns the status, or for a 400 the names of the bad parameters. */
const readVerdict = async (api: Api, path: string): Promise<number | string[]> => {
  const response = await api.get(path);
  if (response.status !== 400) return response.status;
  const { errors } = (await response.json()) as Problem;
  return errors.map(({ parameter }) => parameter);
};

/** Expects the same verdict for all requests, and shows the requests with another one. */
const expectVerdicts = async (api: Api, paths: readonly string[], expected: number | string[]) => {
  const verdicts = await Promise.all(paths.map(async (path) => [path, await readVerdict(api, path)] as const));
  expect(Object.fromEntries(verdicts)).toEqual(Object.fromEntries(paths.map((path) => [path, expected])));
};

/** Combines the nth values of all parameters, up to the longest list of values. */
const rounds = (parameters: readonly string[], pick: (parameter: string) => string[]): string[][] => {
  const lists = parameters.map((parameter) => ({ parameter, values: pick(parameter) }));
  return Array.from({ length: Math.max(...lists.map(({ values }) => values.length)) }, (_, round) =>
    lists.map(({ parameter, values }) => `${parameter}=${values[round % values.length]}`),
  );
};

describe.for(OPERATIONS.map((operation) => [operation.path, operation] as const))("%s", ([, operation]) => {
  const { path, required, optional } = operation;
  const parameters = [...required, ...optional];
  const repeatable = parameters.filter((name) => name !== "chainId");

  test("accepts every well-formed value of each parameter", async ({ samples }) => {
    const good = rounds(parameters, (name) => valuesOf(name).good.map(encodeURIComponent));
    await expectVerdicts(samples, [question(operation), ...good.map((pairs) => `${path}?${pairs.join("&")}`)], 200);
  });

  test("returns 400 with every parameter whose value or percent-encoding is malformed", async ({ samples }) => {
    const bad = rounds(parameters, (name) => [
      ...valuesOf(name).bad.map(encodeURIComponent),
      ...BAD_ESCAPES.map((malformed) => `${goodOf(name)}${malformed}`),
    ]);
    await expectVerdicts(
      samples,
      bad.map((pairs) => `${path}?${pairs.join("&")}`),
      parameters,
    );
  });

  test("returns 400 with every missing required parameter", async ({ samples }) => {
    const response = await samples.get(path);
    const { errors = [] } = (await response.json()) as Partial<Problem>;
    const message = expect.stringMatching(/^is required/);
    expect(errors).toEqual(required.map((parameter) => ({ parameter, message })));
    for (const missing of required)
      expect(await readVerdict(samples, question(operation, [], [missing]))).toEqual([missing]);
  });

  test("accepts a parameter twice only with the same value", async ({ samples }) => {
    const twice = (second: (parameter: string) => string | undefined) =>
      `${path}?${repeatable.flatMap((name) => [write(name, goodOf(name)), write(name, second(name) ?? goodOf(name))]).join("&")}`;
    await expectVerdicts(samples, [twice(goodOf), twice((name) => valuesOf(name).respelled)], 200);
    await expectVerdicts(samples, [twice((name) => valuesOf(name).other), twice(() => "0xé")], repeatable);
  });

  test("returns 400 for a repeated chainId, even with the same value", async ({ samples }) => {
    for (const repeated of words("chainId=1&chainId=1 chainId=1&chainId=137 chainId=&chainId=1 chainId&chainId=1")) {
      const { errors } = await refusal(samples, question(operation, [repeated]));
      expect(errors, repeated).toEqual([{ parameter: "chainId", message: "must be given once" }]);
    }
  });

  test("returns 400 with the indexed networks for a network that is not indexed", async ({ samples }) => {
    const message = "names a network that is not indexed here; indexed are 1 (Ethereum), 137 (Polygon)";
    for (const chainId of words("0 2 5 10 97 324 8453 7777777 31337 999999999999999")) {
      const { detail, errors } = await refusal(samples, question(operation, [`chainId=${chainId}`]));
      expect(errors).toEqual([{ parameter: "chainId", message }]);
      expect(detail).toBe(`chainId ${message}.`);
    }
  });

  test("returns 400 for a timestamp: the answer would be for another time", async ({ samples }) => {
    const message = "is not taken here: use block or minBlock";
    for (const value of ["=1700000000", "=", "", "=soon", "=%zz", "=1&timestamp=2"]) {
      const { errors } = await refusal(samples, question(operation, [`timestamp${value}`]));
      expect(errors, value).toEqual([{ parameter: "timestamp", message }]);
    }
    expect(await readVerdict(samples, question(operation, ["chainId=one", "timestamp=1"]))).toEqual([
      "chainId",
      "timestamp",
    ]);
  });

  test("ignores unknown parameters with any value", async ({ samples }) => {
    const unknown = words("contract tokenId rights numbers details limit wallet apiKey chainid")
      .concat("__proto__", "constructor", "toString", "0", "", "%", "%zz", "%00", "contract[]", "timestamp[]", "Block")
      .filter((name) => !parameters.includes(name));
    const values = ["", "garbage", "0x1", "-1", ...BAD_ESCAPES];
    const pairs = values.map((value) => unknown.map((name) => `${name}=${value}`));
    await expectVerdicts(
      samples,
      pairs.map((more) => question(operation, more)),
      200,
    );
  });
});

describe.for(V2_CHECKS.map((operation) => [operation.path, operation] as const))("%s", ([, operation]) => {
  const SYNONYMS: Record<string, string> = { to: "delegate", from: "vault", delegate: "to", vault: "from" };

  test("accepts both names of a wallet only with the same value", async ({ samples }) => {
    for (const parameter of operation.required.filter((name) => name in SYNONYMS)) {
      const synonym = SYNONYMS[parameter] ?? "";
      const same = [goodOf(parameter), goodOf(parameter).toLowerCase()];
      await expectVerdicts(
        samples,
        same.map((value) => question(operation, [`${synonym}=${value}`])),
        200,
      );
      await expectVerdicts(
        samples,
        [COIN, "garbage"].map((value) => question(operation, [`${synonym}=${value}`])),
        [parameter],
      );
      expect(await readVerdict(samples, question(operation, [`${synonym}=garbage`], [parameter]))).toEqual([synonym]);
    }
  });
});

test.for<[what: string, path: string, expected: string[]]>([
  ["names in another letter case", `v2/check/all?TO=${HOT}&From=${VAULT}`, ["to", "from"]],
  ["to and from on v1 all", `v1/check/all?to=${HOT}&from=${VAULT}`, ["delegate", "vault"]],
  ["to and from on v1 contract", `v1/check/contract?to=${HOT}&from=${VAULT}&contract=${NFT}`, ["delegate", "vault"]],
  [
    "to and from on v1 token",
    `v1/check/token?to=${HOT}&from=${VAULT}&contract=${NFT}&tokenId=1`,
    words("delegate vault"),
  ],
  ["a third value that differs", `v2/check/all?from=${VAULT}&to=${HOT}&to=${HOT}&to=${FRIEND}`, ["to"]],
  ["a second name in percent-encoding", `v2/check/all?from=${VAULT}&to=${HOT}&%74%6F=${FRIEND}`, ["to"]],
  ["a plus sign for a space", `v1/check/token?delegate=${HOT}&vault=${VAULT}&contract=${NFT}&tokenId=1+`, ["tokenId"]],
  ["a name without a value", `v1/check/token?delegate=${HOT}&vault=${VAULT}&contract=${NFT}&tokenId`, ["tokenId"]],
  [
    "a contract left out by a format string",
    `v2/check/contract?to=${HOT}&from=${VAULT}&contract=%!s(MISSING)`,
    ["contract"],
  ],
])("%s: 400", async ([, path, expected], { samples }) => {
  expect(await readVerdict(samples, `/registry/${path}`)).toEqual(expected);
});

test.for(["block", "minBlock", "timestamp"])(
  "/networks takes no %s, and ignores other parameters",
  async (parameter, { samples }) => {
    const { errors } = await refusal(samples, `/networks?${parameter}=1`);
    expect(errors).toEqual([{ parameter, message: "is not taken here: the answer is for now" }]);
    expect(await readVerdict(samples, `/networks?${parameter.toUpperCase()}=1&contract=%zz`)).toBe(200);
    // Monitors add parameters against caches.
    for (const path of ["/health", "/ready", "/status"])
      expect(await readVerdict(samples, `${path}?${parameter}=1`)).toBe(200);
  },
);

describe("a problem document", () => {
  test("lists every bad parameter with its error", async ({ samples }) => {
    const bad = "delegate=0x1&contract=garbage&tokenId=-1&rights=0x1&chainId=2&numbers=big";
    const problem = await refusal(samples, `/registry/v2/check/erc1155?${bad}`);
    const message = (pattern: RegExp) => expect.stringMatching(pattern);
    expect(problem).toEqual({
      type: "/docs#problem-bad-parameter",
      title: "Bad parameter",
      status: 400,
      detail: problem.errors.map(({ parameter, message }) => `${parameter} ${message}.`).join(" "),
      errors: [
        { parameter: "delegate", message: message(/40 hex digits/) },
        { parameter: "vault", message: message(/required/) },
        { parameter: "contract", message: message(/40 hex digits/) },
        { parameter: "tokenId", message: message(/2\^256-1/) },
        { parameter: "rights", message: message(/64 hex digits/) },
        { parameter: "numbers", message: message(/"number" or "string"/) },
        { parameter: "chainId", message: message(/not indexed/) },
      ],
    });
  });

  test("does not repeat the request's values, and must not be cached", async ({ samples }) => {
    const path = "/registry/v2/check/all?to=<script>&from=DROP%20TABLE&rights=0xhello";
    const { detail, errors } = await refusal(samples, path);
    expect(JSON.stringify({ detail, errors })).not.toMatch(/script|DROP|hello/);
    expect((await samples.get(path)).headers.get("cache-control")).toBe("no-store");
  });
});

describe.for(["v1", "v2"])("/registry/%s/{wallet}", (version) => {
  test("returns 400 for a malformed wallet", async ({ samples }) => {
    // An empty wallet is another path.
    const bad = valuesOf("vault").bad.filter((value) => value !== "");
    await expectVerdicts(
      samples,
      [...bad.map(encodeURIComponent), ...words(`check check/ % %zz %ff ..%2f ${VAULT}%2F ${VAULT};v=1`)].map(
        (wallet) => `/registry/${version}/${wallet}`,
      ),
      ["wallet"],
    );
  });

  test("returns 400 with a bad wallet and every bad option", async ({ samples }) => {
    expect(
      await readVerdict(samples, `/registry/${version}/garbage?chainId=one&details=yes&limit=0&numbers=big`),
    ).toEqual(words("wallet chainId details limit numbers"));
  });
});

describe.for(LISTS.map(({ path }) => path))("%s: a cursor", (path) => {
  /** Reads the cursor of the second page of a list. */
  const readCursor = async (api: Api, list: string): Promise<string> => {
    const response = await api.get(list);
    const [, cursor] = /[?&]cursor=([^&>]+)/.exec(response.headers.get("link") ?? "") ?? [];
    if (!cursor) throw new Error(`${list} has no second page.`);
    return cursor;
  };

  test("is refused unless this list returned it", async ({ samples }) => {
    const cursor = await readCursor(samples, `${path}?limit=1`);
    expect(await readVerdict(samples, `${path}?limit=1&cursor=${cursor}`)).toBe(200);
    const version = path.slice(10, 12);
    const forge = (place: string) => Buffer.from(`${version}.1.${place}`).toString("base64url");
    const bad = [
      ...["", "garbage", "0", "a".repeat(2000), cursor.slice(0, -4), cursor.slice(4), cursor.toUpperCase()],
      ...[forge("0x0.incoming.1.1"), forge(`${lower}.sideways.1.1`), forge(`${lower}.incoming.-1.1`)],
      forge(`${lower}.incoming.${"9".repeat(30)}.1`),
      await readCursor(samples, `${path.replace(VAULT, HOT)}?limit=1`),
      await readCursor(samples, `${path}?limit=1&chainId=137`),
      await readCursor(samples, `${path.replace(version, version === "v1" ? "v2" : "v1")}?limit=1`),
      ...BAD_ESCAPES.map((malformed) => `${cursor}${malformed}`),
    ];
    await expectVerdicts(
      samples,
      bad.map((value) => `${path}?limit=1&cursor=${value}`),
      ["cursor"],
    );
  });

  test("is refused without a limit, or twice with different values", async ({ samples }) => {
    const [first, second] = [
      await readCursor(samples, `${path}?limit=1`),
      await readCursor(samples, `${path}?limit=2`),
    ];
    await expectVerdicts(samples, [`${path}?cursor=${first}`, `${path}?cursor=garbage`], ["cursor"]);
    expect(await readVerdict(samples, `${path}?limit=1&cursor=${first}&cursor=${second}`)).toEqual(["cursor"]);
    expect(await readVerdict(samples, `${path}?limit=1&cursor=${first}&cursor=${first}`)).toBe(200);
  });

  test("is listed with a bad wallet only if it is malformed", async ({ samples }) => {
    const other = path.replace(VAULT, "garbage");
    expect(await readVerdict(samples, `${other}?limit=1&cursor=garbage`)).toEqual(["wallet", "cursor"]);
    expect(
      await readVerdict(samples, `${other}?limit=1&cursor=${await readCursor(samples, `${path}?limit=1`)}`),
    ).toEqual(["wallet"]);
  });
});
