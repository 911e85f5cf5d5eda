// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// Stand-in for the v2 registry in tests and in the sandbox, with the same calls, events and answers, and with the same
/// storage of all that decides a check: slot 0.
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

    /// Lowest 20 bytes of a delegation's first word once it is revoked. While it is active, they are its vault.
    address private constant REVOKED = address(1);

    /// Words of a delegation: vault and the contract's first 8 bytes, delegate and the other 12, rights, token id, amount.
    mapping(bytes32 hash => bytes32[5]) private delegations;
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

    function delegateAll(address to, bytes32 rights, bool enable) external payable returns (bytes32 hash) {
        hash = set(Delegation(DelegationType.ALL, to, msg.sender, rights, address(0), 0, 0), enable);
        emit DelegateAll(msg.sender, to, rights, enable);
    }

    function delegateContract(address to, address contract_, bytes32 rights, bool enable)
        external
        payable
        returns (bytes32 hash)
    {
        hash = set(Delegation(DelegationType.CONTRACT, to, msg.sender, rights, contract_, 0, 0), enable);
        emit DelegateContract(msg.sender, to, contract_, rights, enable);
    }

    function delegateERC721(address to, address contract_, uint256 tokenId, bytes32 rights, bool enable)
        external
        payable
        returns (bytes32 hash)
    {
        hash = set(Delegation(DelegationType.ERC721, to, msg.sender, rights, contract_, tokenId, 0), enable);
        emit DelegateERC721(msg.sender, to, contract_, tokenId, rights, enable);
    }

    function delegateERC20(address to, address contract_, bytes32 rights, uint256 amount)
        external
        payable
        returns (bytes32 hash)
    {
        hash = set(Delegation(DelegationType.ERC20, to, msg.sender, rights, contract_, 0, amount), amount != 0);
        emit DelegateERC20(msg.sender, to, contract_, rights, amount);
    }

    function delegateERC1155(address to, address contract_, uint256 tokenId, bytes32 rights, uint256 amount)
        external
        payable
        returns (bytes32 hash)
    {
        hash = set(Delegation(DelegationType.ERC1155, to, msg.sender, rights, contract_, tokenId, amount), amount != 0);
        emit DelegateERC1155(msg.sender, to, contract_, tokenId, rights, amount);
    }

    function set(Delegation memory d, bool enable) private returns (bytes32 hash) {
        hash = hashOf(d);
        bytes32[5] storage words = delegations[hash];
        address stored = firstWordAddress(words);
        if (enable) {
            if (stored == address(0)) {
                outgoing[d.from].push(hash);
                incoming[d.to].push(hash);
                uint256 contract_ = uint160(d.contract_);
                words[0] = bytes32(contract_ >> 96 << 160);
                words[1] = bytes32((contract_ << 160) | uint160(d.to));
                words[2] = d.rights;
                words[3] = bytes32(d.tokenId);
            }
            setFirstWordAddress(words, d.from);
            words[4] = bytes32(d.amount);
        } else if (stored == d.from) {
            setFirstWordAddress(words, REVOKED);
            words[4] = 0;
        }
    }

    function firstWordAddress(bytes32[5] storage words) private view returns (address) {
        return address(uint160(uint256(words[0])));
    }

    function setFirstWordAddress(bytes32[5] storage words, address value) private {
        words[0] = bytes32((uint256(words[0]) >> 160 << 160) | uint160(value));
    }

    /// Identifies a delegation, in the last byte by its type. The amount is not part of it.
    function hashOf(Delegation memory d) private pure returns (bytes32) {
        bytes memory packed = abi.encodePacked(d.rights, d.from, d.to);
        if (d.type_ != DelegationType.ALL) packed = abi.encodePacked(packed, d.contract_);
        if (d.type_ == DelegationType.ERC721 || d.type_ == DelegationType.ERC1155) {
            packed = abi.encodePacked(packed, d.tokenId);
        }
        return bytes32((uint256(keccak256(packed)) << 8) | uint256(d.type_));
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
        if (isActive(hashOf(d))) return true;
        d.rights = 0;
        return isActive(hashOf(d));
    }

    /// The larger of the amounts delegated with exactly these rights and with full rights.
    function balance(Delegation memory d) private view returns (uint256) {
        uint256 exact = amountOf(hashOf(d));
        d.rights = 0;
        uint256 full = amountOf(hashOf(d));
        return exact > full ? exact : full;
    }

    function isActive(bytes32 hash) private view returns (bool) {
        return uint160(firstWordAddress(delegations[hash])) > uint160(REVOKED);
    }

    function amountOf(bytes32 hash) private view returns (uint256) {
        return isActive(hash) ? uint256(delegations[hash][4]) : 0;
    }

    function select(bytes32[] storage hashes) private view returns (Delegation[] memory found) {
        uint256 count = 0;
        for (uint256 i = 0; i < hashes.length; i++) if (isActive(hashes[i])) count++;
        found = new Delegation[](count);
        count = 0;
        for (uint256 i = 0; i < hashes.length; i++) {
            if (isActive(hashes[i])) found[count++] = read(hashes[i]);
        }
    }

    function read(bytes32 hash) private view returns (Delegation memory) {
        bytes32[5] storage words = delegations[hash];
        uint256 contract_ = (uint256(words[0]) >> 160 << 96) | (uint256(words[1]) >> 160);
        return Delegation({
            type_: DelegationType(uint8(uint256(hash))),
            to: address(uint160(uint256(words[1]))),
            from: firstWordAddress(words),
            rights: words[2],
            contract_: address(uint160(contract_)),
            tokenId: uint256(words[3]),
            amount: uint256(words[4])
        });
    }
}
