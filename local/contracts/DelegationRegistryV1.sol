// SPDX-License-Identifier: MIT
pragma solidity 0.8.28;

/// Stand-in for the v1 registry in tests and in the sandbox, with the same calls, events and answers.
/// It stores every delegation ever made with a flag, so that its answers are easy to verify. The
/// deployed contract does the same in fewer steps.
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

    mapping(bytes32 key => DelegationInfo) private delegations;
    mapping(bytes32 key => bool) private active;
    mapping(address vault => bytes32[]) private madeBy;
    mapping(address delegate => bytes32[]) private madeTo;

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
        bytes32[] storage keys = madeBy[msg.sender];
        for (uint256 i = 0; i < keys.length; i++) active[keys[i]] = false;
        emit RevokeAllDelegates(msg.sender);
    }

    function revokeDelegate(address delegate) external {
        revokeBetween(msg.sender, delegate);
    }

    function revokeSelf(address vault) external {
        revokeBetween(vault, msg.sender);
    }

    function revokeBetween(address vault, address delegate) private {
        bytes32[] storage keys = madeBy[vault];
        for (uint256 i = 0; i < keys.length; i++) {
            if (delegations[keys[i]].delegate == delegate) active[keys[i]] = false;
        }
        // Like the deployed contract, this emits the caller, not the revoked delegate.
        emit RevokeDelegate(vault, msg.sender);
    }

    function set(DelegationInfo memory delegation, bool value) private {
        bytes32 key = keccak256(abi.encode(delegation));
        if (delegations[key].type_ == DelegationType.NONE) {
            delegations[key] = delegation;
            madeBy[delegation.vault].push(key);
            madeTo[delegation.delegate].push(key);
        }
        active[key] = value;
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
        DelegationInfo[] memory found = select(madeBy[vault], DelegationType.CONTRACT);
        result = new ContractDelegation[](found.length);
        for (uint256 i = 0; i < found.length; i++) {
            result[i] = ContractDelegation(found[i].contract_, found[i].delegate);
        }
    }

    function getTokenLevelDelegations(address vault) external view returns (TokenDelegation[] memory result) {
        DelegationInfo[] memory found = select(madeBy[vault], DelegationType.TOKEN);
        result = new TokenDelegation[](found.length);
        for (uint256 i = 0; i < found.length; i++) {
            result[i] = TokenDelegation(found[i].contract_, found[i].tokenId, found[i].delegate);
        }
    }

    function getDelegationsByDelegate(address delegate) external view returns (DelegationInfo[] memory) {
        return select(madeTo[delegate], DelegationType.NONE);
    }

    /// Delegates with a delegation of exactly this scope: a broader one does not count.
    function delegatesFor(address vault, DelegationType type_, address contract_, uint256 tokenId)
        private
        view
        returns (address[] memory delegates)
    {
        DelegationInfo[] memory found = select(madeBy[vault], type_);
        uint256 count = 0;
        for (uint256 i = 0; i < found.length; i++) {
            if (found[i].contract_ == contract_ && found[i].tokenId == tokenId) found[count++] = found[i];
        }
        delegates = new address[](count);
        for (uint256 i = 0; i < count; i++) delegates[i] = found[i].delegate;
    }

    function isActive(DelegationInfo memory delegation) private view returns (bool) {
        return active[keccak256(abi.encode(delegation))];
    }

    /// Selects the active delegations of one type. NONE selects every type.
    function select(bytes32[] storage keys, DelegationType type_) private view returns (DelegationInfo[] memory found) {
        uint256 count = 0;
        for (uint256 i = 0; i < keys.length; i++) if (matches(keys[i], type_)) count++;
        found = new DelegationInfo[](count);
        count = 0;
        for (uint256 i = 0; i < keys.length; i++) {
            if (matches(keys[i], type_)) found[count++] = delegations[keys[i]];
        }
    }

    function matches(bytes32 key, DelegationType type_) private view returns (bool) {
        return active[key] && (type_ == DelegationType.NONE || delegations[key].type_ == type_);
    }
}
