// A local chain. It mines when told to; the sandbox then has it mine by the clock.
module.exports = {
  solidity: "0.8.28",
  networks: {
    hardhat: {
      chainId: Number(process.env.SANDBOX_CHAIN_ID),
      initialDate: process.env.SANDBOX_CHAIN_STARTS_AT,
      mining: { auto: false, interval: 0, mempool: { order: "fifo" } },
      blockGasLimit: 300_000_000,
      // The first is free: blocks filled to any degree leave it so.
      initialBaseFeePerGas: 0,
    },
  },
};
