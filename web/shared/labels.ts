const MAX_UINT256 = 2n ** 256n - 1n;

/** The exact amount with commas. The largest uint256 means "unlimited". */
export const amountLabel = (amount: bigint): string =>
  amount === MAX_UINT256 ? "Unlimited" : amount.toLocaleString("en");

export const countLabel = (count: number, singular: string, plural: string): string =>
  `${count.toLocaleString("en")} ${count === 1 ? singular : plural}`;
