// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// A contract wallet, such as a Safe. Anybody can make it send one call, or several in one transaction.
contract ContractWallet {
    function execute(address target, bytes calldata data) external {
        call(target, data);
    }

    function executeBatch(address[] calldata targets, bytes[] calldata data) external {
        for (uint256 i = 0; i < targets.length; i++) call(targets[i], data[i]);
    }

    function call(address target, bytes calldata data) private {
        (bool success, bytes memory result) = target.call(data);
        if (!success) {
            assembly {
                revert(add(result, 32), mload(result))
            }
        }
    }
}
