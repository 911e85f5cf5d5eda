import { parseArgs } from "node:util";
import { z } from "zod";
import { integer } from "../../process/settings.ts";

export type ExportRequest = {
  format: "csv" | "parquet";
  /** The log of changes up to a block, or the delegations active at it. */
  what: "changes" | "state";
  chainId: number;
  /** null: the newest indexed one. */
  block: number | null;
  /** null: a file in the working directory, named after its content. */
  out: string | null;
};

const USAGE = `npm run export -- --format parquet|csv [--what changes|state] --chain <id> [--block <number>] [--out <file>]

  --what changes   every change up to the block, in order (the default)
  --what state     the delegations active at the block
  --block          by default the newest indexed block
  --out            by default a name such as changes-1-19000000.csv

The database is DATABASE_URL, or that of a running "npm start" or "npm run dev".`;

const oneOf = <const Value extends string>(...values: Value[]) =>
  z.enum(values, { error: `must be ${values.join(" or ")}` });

const schema = z.object({
  "--format": oneOf("csv", "parquet"),
  "--what": oneOf("changes", "state").default("changes"),
  "--chain": z.string({ error: "is missing: the id of a chain" }).pipe(integer(1, Number.MAX_SAFE_INTEGER)),
  "--block": integer(0, Number.MAX_SAFE_INTEGER).optional(),
  "--out": z.string().min(1, { error: "must name a file" }).optional(),
});

/** Parses the arguments. Throws an error that names every problem. */
export const parseRequest = (args: string[]): ExportRequest => {
  const parsed = schema.safeParse(readOptions(args));
  if (!parsed.success) {
    const problems = parsed.error.issues.map(({ path, message }) => `  - ${path.join(".")} ${message}.`);
    throw new Error(["This cannot be exported:", ...problems, "", USAGE].join("\n"));
  }
  const { data } = parsed;
  return {
    format: data["--format"],
    what: data["--what"],
    chainId: data["--chain"],
    block: data["--block"] ?? null,
    out: data["--out"] ?? null,
  };
};

const readOptions = (args: string[]): Record<string, string | undefined> => {
  const string = { type: "string" } as const;
  try {
    const { values } = parseArgs({
      args,
      options: { format: string, what: string, chain: string, block: string, out: string },
    });
    return Object.fromEntries(Object.entries(values).map(([name, value]) => [`--${name}`, value]));
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new Error(`${error.message}\n\n${USAGE}`);
  }
};
