import { keysCommand } from "../../commands/keys/keys-command.ts";

type Outcome = { code: number; stdout: string; stderr: string };

/** Runs `npm run keys` in this process. */
export const runKeys = async (args: string[], databaseUrl: string): Promise<Outcome> => {
  const [stdout, stderr]: [string[], string[]] = [[], []];
  const code = await keysCommand(args, {
    environment: { DATABASE_URL: databaseUrl },
    print: (text) => stdout.push(text, "\n"),
    say: (text) => stderr.push(text, "\n"),
  });
  return { code, stdout: stdout.join(""), stderr: stderr.join("") };
};
