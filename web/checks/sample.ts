const VAULT = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const HOT = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const GUEST = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const NFT = "0xBC4CA0EdA7647A8aB7C2061c2E118A18a936f13D";
const COIN = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48";

/** A list over the sandbox's sample delegations. */
export const SAMPLE = `name,registry,check,to,from,contract,tokenId,rights
Alice,v2,all,${HOT},${VAULT},,,
Bob,v2,all,${GUEST},${VAULT},,,
Carol,v2,erc721,${GUEST},${VAULT},${NFT},8520,
Dave,v2,erc20,${GUEST},${VAULT},${COIN},,
Erin,v2,erc1155,${GUEST},${VAULT},${NFT},7,airdrop
Frank,v1,token,${GUEST},${VAULT},${NFT},8520,
`;
