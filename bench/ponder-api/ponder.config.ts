import { createConfig } from "ponder";

// For `ponder serve`, which answers from an existing index: it never calls the RPC and does not compare
// builds. The connection pool is Ponder's default.
export default createConfig({
  database: { kind: "postgres", connectionString: process.env.DATABASE_URL },
  chains: { mainnet: { id: 1, rpc: "http://127.0.0.1:1" } },
  contracts: {},
});
