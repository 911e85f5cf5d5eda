// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// Stand-in for the v2 registry in tests and in the sandbox, with the same calls, events and answers.
/// It stores every delegation ever made with its current value, so that its answers are easy to verify.
contract DelegateRegistryV2 {
    enum DelegationType {
        NONE,
        ALL,
        CONTRACT,
        ERC721,
        ERC20,
        ERC1155
    }

    struct Delegation {
        DelegationType type_;
        address to;
        address from;
        bytes32 rights;
        address contract_;
        uint256 tokenId;
        uint256 amount;
    }

    event DelegateAll(address indexed from, address indexed to, bytes32 rights, bool enable);
    event DelegateContract(
        address indexed from, address indexed to, address indexed contract_, bytes32 rights, bool enable
    );
    event DelegateERC721(
        address indexed from,
        address indexed to,
        address indexed contract_,
        uint256 tokenId,
        bytes32 rights,
        bool enable
    );
    event DelegateERC20(
        address indexed from, address indexed to, address indexed contract_, bytes32 rights, uint256 amount
    );
    event DelegateERC1155(
        address indexed from,
        address indexed to,
        address indexed contract_,
        uint256 tokenId,
        bytes32 rights,
        uint256 amount
    );

    mapping(bytes32 key => Delegation) private delegations;
    mapping(bytes32 key => bool) private active;
    mapping(address from => bytes32[]) private outgoing;
    mapping(address to => bytes32[]) private incoming;

    // Writes

    function multicall(bytes[] calldata data) external payable returns (bytes[] memory results) {
        results = new bytes[](data.length);
        for (uint256 i = 0; i < data.length; i++) {
            (bool success, bytes memory result) = address(this).delegatecall(data[i]);
            require(success, "multicall failed");
            results[i] = result;
        }
    }

    function delegateAll(address to, bytes32 rights, bool enable) external payable returns (bytes32 key) {
        key = set(Delegation(DelegationType.ALL, to, msg.sender, rights, address(0), 0, 0), enable);
        emit DelegateAll(msg.sender, to, rights, enable);
    }

    function delegateContract(address to, address contract_, bytes32 rights, bool enable)
        external
        payable
        returns (bytes32 key)
    {
        key = set(Delegation(DelegationType.CONTRACT, to, msg.sender, rights, contract_, 0, 0), enable);
        emit DelegateContract(msg.sender, to, contract_, rights, enable);
    }

    function delegateERC721(address to, address contract_, uint256 tokenId, bytes32 rights, bool enable)
        external
        payable
        returns (bytes32 key)
    {
        key = set(Delegation(DelegationType.ERC721, to, msg.sender, rights, contract_, tokenId, 0), enable);
        emit DelegateERC721(msg.sender, to, contract_, tokenId, rights, enable);
    }

    function delegateERC20(address to, address contract_, bytes32 rights, uint256 amount)
        external
        payable
        returns (bytes32 key)
    {
        key = set(Delegation(DelegationType.ERC20, to, msg.sender, rights, contract_, 0, amount), amount != 0);
        emit DelegateERC20(msg.sender, to, contract_, rights, amount);
    }

    function delegateERC1155(address to, address contract_, uint256 tokenId, bytes32 rights, uint256 amount)
        external
        payable
        returns (bytes32 key)
    {
        key = set(Delegation(DelegationType.ERC1155, to, msg.sender, rights, contract_, tokenId, amount), amount != 0);
        emit DelegateERC1155(msg.sender, to, contract_, tokenId, rights, amount);
    }

    function set(Delegation memory delegation, bool enable) private returns (bytes32 key) {
        key = keyOf(delegation);
        if (delegations[key].type_ == DelegationType.NONE) {
            outgoing[delegation.from].push(key);
            incoming[delegation.to].push(key);
        }
        delegations[key] = delegation;
        active[key] = enable;
    }

    /// The amount is not part of a delegation's identity.
    function keyOf(Delegation memory d) private pure returns (bytes32) {
        return keccak256(abi.encode(d.type_, d.to, d.from, d.rights, d.contract_, d.tokenId));
    }

    // Reads

    function checkDelegateForAll(address to, address from, bytes32 rights) public view returns (bool) {
        return holds(Delegation(DelegationType.ALL, to, from, rights, address(0), 0, 0));
    }

    function checkDelegateForContract(address to, address from, address contract_, bytes32 rights)
        public
        view
        returns (bool)
    {
        return holds(Delegation(DelegationType.CONTRACT, to, from, rights, contract_, 0, 0))
            || checkDelegateForAll(to, from, rights);
    }

    function checkDelegateForERC721(address to, address from, address contract_, uint256 tokenId, bytes32 rights)
        external
        view
        returns (bool)
    {
        return holds(Delegation(DelegationType.ERC721, to, from, rights, contract_, tokenId, 0))
            || checkDelegateForContract(to, from, contract_, rights);
    }

    function checkDelegateForERC20(address to, address from, address contract_, bytes32 rights)
        external
        view
        returns (uint256)
    {
        if (checkDelegateForContract(to, from, contract_, rights)) return type(uint256).max;
        return balance(Delegation(DelegationType.ERC20, to, from, rights, contract_, 0, 0));
    }

    function checkDelegateForERC1155(address to, address from, address contract_, uint256 tokenId, bytes32 rights)
        external
        view
        returns (uint256)
    {
        if (checkDelegateForContract(to, from, contract_, rights)) return type(uint256).max;
        return balance(Delegation(DelegationType.ERC1155, to, from, rights, contract_, tokenId, 0));
    }

    function getIncomingDelegations(address to) external view returns (Delegation[] memory) {
        return select(incoming[to]);
    }

    function getOutgoingDelegations(address from) external view returns (Delegation[] memory) {
        return select(outgoing[from]);
    }

    /// True with exactly these rights, or with full rights.
    function holds(Delegation memory d) private view returns (bool) {
        if (active[keyOf(d)]) return true;
        d.rights = 0;
        return active[keyOf(d)];
    }

    /// The larger of the amounts delegated with exactly these rights and with full rights.
    function balance(Delegation memory d) private view returns (uint256) {
        uint256 exact = amountOf(keyOf(d));
        d.rights = 0;
        uint256 full = amountOf(keyOf(d));
        return exact > full ? exact : full;
    }

    function amountOf(bytes32 key) private view returns (uint256) {
        return active[key] ? delegations[key].amount : 0;
    }

    function select(bytes32[] storage keys) private view returns (Delegation[] memory found) {
        uint256 count = 0;
        for (uint256 i = 0; i < keys.length; i++) if (active[keys[i]]) count++;
        found = new Delegation[](count);
        count = 0;
        for (uint256 i = 0; i < keys.length; i++) {
            if (active[keys[i]]) found[count++] = delegations[keys[i]];
        }
    }
}
