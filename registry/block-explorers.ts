import { z } from "zod";
import table from "./block-explorers.json" with { type: "json" };

/** The URL of each network's block explorer, by chain id, without a slash at the end. */
export const blockExplorers: ReadonlyMap<number, string> = new Map(
  Object.entries(z.record(z.string(), z.url()).parse(table)).map(([chainId, url]) => [Number(chainId), url]),
);
