import { z } from "zod";

// What every program's settings have in common.

/** Settings that cannot be used, with every reason. */
export class SettingsError extends Error {
  override name = "SettingsError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(["The settings cannot be used:", ...problems.map((problem) => `  - ${problem}`)].join("\n"));
    this.problems = problems;
  }
}

export type Variables = Record<string, string>;

/** The variables that are set. An empty one is not: docker compose passes on what .env leaves open. */
export const setVariables = (environment: NodeJS.ProcessEnv): Variables =>
  Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) => (value?.trim() ? [[name, value.trim()]] : [])),
  );

/** A line for each variable that a schema refuses. */
export const problemsOf = (error: z.ZodError): string[] =>
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

export const databaseUrl = z
  .string()
  .refine(isUrl(["postgres:", "postgresql:"]), { error: "must be a postgres:// URL" });

export const logLevel = z
  .enum(["fatal", "error", "warn", "info", "debug", "trace"], {
    error: "must be fatal, error, warn, info, debug or trace",
  })
  .default("info");
