import fc from "fast-check";
import { type Address, getAddress } from "viem";
import { expect, test } from "vitest";
import { checksumAddress } from "../../api/delegations/checksum-address.ts";
import { PROPERTY_RUNS } from "../support/random.ts";

test("checksumAddress() returns viem's checksum for any address in any letter case", () => {
  const address = fc.stringMatching(/^0x[0-9a-fA-F]{40}$/);
  fc.assert(
    fc.property(address, (text) => {
      expect(checksumAddress(text as Address)).toBe(getAddress(text.toLowerCase()));
    }),
    { numRuns: PROPERTY_RUNS },
  );
});
