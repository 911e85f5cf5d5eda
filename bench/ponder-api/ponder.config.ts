import { createConfig } from "ponder";

// For `ponder serve`, which answers from an index that is there: it never asks the RPC, and does not compare
// builds. The pool is Ponder's default.
export default createConfig({
  database: { kind: "postgres", connectionString: process.env.DATABASE_URL },
  chains: { mainnet: { id: 1, rpc: "http://127.0.0.1:1" } },
  contracts: {},
});
