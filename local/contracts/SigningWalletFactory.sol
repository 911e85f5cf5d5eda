// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// A contract wallet that validates signatures (ERC-1271): it accepts those of its owner's key.
contract SigningWallet {
    address private immutable owner;

    constructor(address owner_) {
        owner = owner_;
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        bytes32 r = bytes32(signature[0:32]);
        bytes32 s = bytes32(signature[32:64]);
        bool isOwners = ecrecover(hash, uint8(signature[64]), r, s) == owner;
        return isOwners ? this.isValidSignature.selector : bytes4(0xffffffff);
    }
}

/// Deploys signing wallets to addresses that are known before deployment.
contract SigningWalletFactory {
    function deploy(address owner) external returns (address) {
        return address(new SigningWallet{salt: 0}(owner));
    }

    function addressOf(address owner) external view returns (address) {
        bytes32 code = keccak256(abi.encodePacked(type(SigningWallet).creationCode, abi.encode(owner)));
        return address(uint160(uint256(keccak256(abi.encodePacked(bytes1(0xff), address(this), bytes32(0), code)))));
    }
}
