// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// Stand-in for the v1 registry in tests and in the sandbox, with the same calls, events and answers, and with the same
/// storage of all that decides a check: slots 0 to 2.
contract DelegationRegistryV1 {
    enum DelegationType {
        NONE,
        ALL,
        CONTRACT,
        TOKEN
    }

    struct DelegationInfo {
        DelegationType type_;
        address vault;
        address delegate;
        address contract_;
        uint256 tokenId;
    }

    struct ContractDelegation {
        address contract_;
        address delegate;
    }

    struct TokenDelegation {
        address contract_;
        uint256 tokenId;
        address delegate;
    }

    event DelegateForAll(address vault, address delegate, bool value);
    event DelegateForContract(address vault, address delegate, address contract_, bool value);
    event DelegateForToken(address vault, address delegate, address contract_, uint256 tokenId, bool value);
    event RevokeAllDelegates(address vault);
    event RevokeDelegate(address vault, address delegate);

    /// Hashes, and the position of each, counted from 1.
    struct Set {
        bytes32[] hashes;
        mapping(bytes32 hash => uint256) positions;
    }

    /// Delegations of a vault that its current version has are active if they have the delegate's current version too.
    mapping(address vault => mapping(uint256 vaultVersion => Set)) private madeBy;
    mapping(address vault => uint256) private vaultVersions;
    mapping(address vault => mapping(address delegate => uint256)) private delegateVersions;
    mapping(address delegate => Set) private madeTo;
    mapping(bytes32 hash => DelegationInfo) private delegations;

    // Writes

    function delegateForAll(address delegate, bool value) external {
        set(DelegationInfo(DelegationType.ALL, msg.sender, delegate, address(0), 0), value);
        emit DelegateForAll(msg.sender, delegate, value);
    }

    function delegateForContract(address delegate, address contract_, bool value) external {
        set(DelegationInfo(DelegationType.CONTRACT, msg.sender, delegate, contract_, 0), value);
        emit DelegateForContract(msg.sender, delegate, contract_, value);
    }

    function delegateForToken(address delegate, address contract_, uint256 tokenId, bool value) external {
        set(DelegationInfo(DelegationType.TOKEN, msg.sender, delegate, contract_, tokenId), value);
        emit DelegateForToken(msg.sender, delegate, contract_, tokenId, value);
    }

    function revokeAllDelegates() external {
        vaultVersions[msg.sender]++;
        emit RevokeAllDelegates(msg.sender);
    }

    function revokeDelegate(address delegate) external {
        revokeBetween(msg.sender, delegate);
    }

    function revokeSelf(address vault) external {
        revokeBetween(vault, msg.sender);
    }

    function revokeBetween(address vault, address delegate) private {
        delegateVersions[vault][delegate]++;
        // Like the deployed contract, this emits the caller, not the revoked delegate.
        emit RevokeDelegate(vault, msg.sender);
    }

    function set(DelegationInfo memory delegation, bool value) private {
        bytes32 hash = hashOf(delegation);
        Set storage ofVault = madeBy[delegation.vault][vaultVersions[delegation.vault]];
        if (value) {
            delegations[hash] = delegation;
            add(ofVault, hash);
            add(madeTo[delegation.delegate], hash);
        } else {
            remove(ofVault, hash);
            remove(madeTo[delegation.delegate], hash);
        }
    }

    function add(Set storage self, bytes32 hash) private {
        if (self.positions[hash] != 0) return;
        self.hashes.push(hash);
        self.positions[hash] = self.hashes.length;
    }

    /// The last hash takes the place of the removed one.
    function remove(Set storage self, bytes32 hash) private {
        uint256 position = self.positions[hash];
        if (position == 0) return;
        bytes32 last = self.hashes[self.hashes.length - 1];
        self.hashes[position - 1] = last;
        self.positions[last] = position;
        self.hashes.pop();
        delete self.positions[hash];
    }

    /// Identifies a delegation under the current versions of its vault and delegate.
    function hashOf(DelegationInfo memory d) private view returns (bytes32) {
        uint256 vaultVersion = vaultVersions[d.vault];
        uint256 delegateVersion = delegateVersions[d.vault][d.delegate];
        if (d.type_ == DelegationType.ALL) {
            return keccak256(abi.encode(d.delegate, d.vault, vaultVersion, delegateVersion));
        }
        if (d.type_ == DelegationType.CONTRACT) {
            return keccak256(abi.encode(d.delegate, d.vault, d.contract_, vaultVersion, delegateVersion));
        }
        return keccak256(abi.encode(d.delegate, d.vault, d.contract_, d.tokenId, vaultVersion, delegateVersion));
    }

    // Reads

    function checkDelegateForAll(address delegate, address vault) public view returns (bool) {
        return isActive(DelegationInfo(DelegationType.ALL, vault, delegate, address(0), 0));
    }

    function checkDelegateForContract(address delegate, address vault, address contract_) public view returns (bool) {
        return isActive(DelegationInfo(DelegationType.CONTRACT, vault, delegate, contract_, 0))
            || checkDelegateForAll(delegate, vault);
    }

    function checkDelegateForToken(address delegate, address vault, address contract_, uint256 tokenId)
        external
        view
        returns (bool)
    {
        return isActive(DelegationInfo(DelegationType.TOKEN, vault, delegate, contract_, tokenId))
            || checkDelegateForContract(delegate, vault, contract_);
    }

    function getDelegatesForAll(address vault) external view returns (address[] memory) {
        return delegatesFor(vault, DelegationType.ALL, address(0), 0);
    }

    function getDelegatesForContract(address vault, address contract_) external view returns (address[] memory) {
        return delegatesFor(vault, DelegationType.CONTRACT, contract_, 0);
    }

    function getDelegatesForToken(address vault, address contract_, uint256 tokenId)
        external
        view
        returns (address[] memory)
    {
        return delegatesFor(vault, DelegationType.TOKEN, contract_, tokenId);
    }

    function getContractLevelDelegations(address vault) external view returns (ContractDelegation[] memory result) {
        DelegationInfo[] memory found = select(madeOf(vault), DelegationType.CONTRACT);
        result = new ContractDelegation[](found.length);
        for (uint256 i = 0; i < found.length; i++) {
            result[i] = ContractDelegation(found[i].contract_, found[i].delegate);
        }
    }

    function getTokenLevelDelegations(address vault) external view returns (TokenDelegation[] memory result) {
        DelegationInfo[] memory found = select(madeOf(vault), DelegationType.TOKEN);
        result = new TokenDelegation[](found.length);
        for (uint256 i = 0; i < found.length; i++) {
            result[i] = TokenDelegation(found[i].contract_, found[i].tokenId, found[i].delegate);
        }
    }

    function getDelegationsByDelegate(address delegate) external view returns (DelegationInfo[] memory) {
        return select(madeTo[delegate].hashes, DelegationType.NONE);
    }

    function madeOf(address vault) private view returns (bytes32[] storage) {
        return madeBy[vault][vaultVersions[vault]].hashes;
    }

    /// Delegates with a delegation of exactly this scope: a broader one does not count.
    function delegatesFor(address vault, DelegationType type_, address contract_, uint256 tokenId)
        private
        view
        returns (address[] memory delegates)
    {
        DelegationInfo[] memory found = select(madeOf(vault), type_);
        uint256 count = 0;
        for (uint256 i = 0; i < found.length; i++) {
            if (found[i].contract_ == contract_ && found[i].tokenId == tokenId) found[count++] = found[i];
        }
        delegates = new address[](count);
        for (uint256 i = 0; i < count; i++) delegates[i] = found[i].delegate;
    }

    function isActive(DelegationInfo memory d) private view returns (bool) {
        return madeBy[d.vault][vaultVersions[d.vault]].positions[hashOf(d)] != 0;
    }

    /// Selects the active delegations of one type. NONE selects every type.
    function select(bytes32[] storage hashes, DelegationType type_)
        private
        view
        returns (DelegationInfo[] memory found)
    {
        uint256 count = 0;
        for (uint256 i = 0; i < hashes.length; i++) if (matches(hashes[i], type_)) count++;
        found = new DelegationInfo[](count);
        count = 0;
        for (uint256 i = 0; i < hashes.length; i++) {
            if (matches(hashes[i], type_)) found[count++] = delegations[hashes[i]];
        }
    }

    /// A hash of an earlier version may still be in a set.
    function matches(bytes32 hash, DelegationType type_) private view returns (bool) {
        DelegationInfo memory d = delegations[hash];
        return hashOf(d) == hash && (type_ == DelegationType.NONE || d.type_ == type_);
    }
}
