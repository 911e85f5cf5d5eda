import { z } from "zod";

// Parts that the settings of every program share.

/** Lists every problem of invalid settings. */
export class SettingsError extends Error {
  override name = "SettingsError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(["The settings cannot be used:", ...problems.map((problem) => `  - ${problem}`)].join("\n"));
    this.problems = problems;
  }
}

export type Variables = Record<string, string>;

/** Drops empty variables: docker compose passes those on that .env leaves empty. */
export const dropEmptyVariables = (environment: NodeJS.ProcessEnv): Variables =>
  Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) => (value?.trim() ? [[name, value.trim()]] : [])),
  );

/** Lists the variables that a schema rejects, one line each. */
export const listProblems = (error: z.ZodError): string[] =>
  error.issues.map(({ path, message }) => `${path.join(".")} ${message}.`);

export const isUrl = (protocols: string[]) => (value: string) =>
  URL.canParse(value) && protocols.includes(new URL(value).protocol);

export const integer = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d+$/, { error: `must be a whole number from ${min} to ${max}`, abort: true })
    .transform(Number)
    .refine((value) => value >= min && value <= max, {
      error: `must be a whole number from ${min} to ${max}`,
    });

export const port = integer(1, 65_535);

export const logLevel = z
  .enum(["fatal", "error", "warn", "info", "debug", "trace"], {
    error: "must be fatal, error, warn, info, debug or trace",
  })
  .default("info");

export const databaseUrl = z
  .string()
  .refine(isUrl(["postgres:", "postgresql:"]), { error: "must be a postgres:// URL" });

/** Reads DATABASE_URL; null if it is not set. */
export const parseOptionalDatabaseUrl = (environment: NodeJS.ProcessEnv): string | null => {
  const url = dropEmptyVariables(environment).DATABASE_URL;
  if (url === undefined) return null;
  const parsed = databaseUrl.safeParse(url);
  if (!parsed.success) throw new SettingsError([`DATABASE_URL ${parsed.error.issues[0]?.message}.`]);
  return parsed.data;
};

/** Reads DATABASE_URL. Throws if it is not set. */
export const parseDatabaseUrl = (environment: NodeJS.ProcessEnv): string => {
  const url = parseOptionalDatabaseUrl(environment);
  if (url !== null) return url;
  throw new SettingsError(['DATABASE_URL is not set: name a Postgres, or use "npm start", which starts its own.']);
};

/** Parses several groups of settings. Throws one SettingsError with the problems of all groups. */
export const parseAll = <Groups extends readonly unknown[]>(
  ...parsers: { [Index in keyof Groups]: () => Groups[Index] }
): Groups => {
  const problems = new Set<string>();
  const groups = parsers.map((parse) => {
    try {
      return parse();
    } catch (error) {
      if (!(error instanceof SettingsError)) throw error;
      for (const problem of error.problems) problems.add(problem);
      return undefined;
    }
  });
  if (problems.size > 0) throw new SettingsError([...problems]);
  return groups as unknown as Groups;
};
