// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// A hostile contract wallet: instead of an answer it asks for an off-chain lookup (ERC-3668) at the URL in the signature.
contract LookupWallet {
    error OffchainLookup(address sender, string[] urls, bytes callData, bytes4 callbackFunction, bytes extraData);

    function isValidSignature(bytes32, bytes calldata signature) external view returns (bytes4) {
        string[] memory urls = new string[](1);
        urls[0] = string(signature);
        revert OffchainLookup(address(this), urls, "", this.isValidSignature.selector, "");
    }
}
