import { parseAbi } from "viem";

/** The v1 registry. None of its event arguments is indexed. */
export const registryV1Abi = parseAbi([
  "event DelegateForAll(address vault, address delegate, bool value)",
  "event DelegateForContract(address vault, address delegate, address contract_, bool value)",
  "event DelegateForToken(address vault, address delegate, address contract_, uint256 tokenId, bool value)",
  "event RevokeAllDelegates(address vault)",
  "event RevokeDelegate(address vault, address delegate)",

  "function delegateForAll(address delegate, bool value)",
  "function delegateForContract(address delegate, address contract_, bool value)",
  "function delegateForToken(address delegate, address contract_, uint256 tokenId, bool value)",
  "function revokeAllDelegates()",
  "function revokeDelegate(address delegate)",
  "function revokeSelf(address vault)",

  "struct ContractDelegation { address contract_; address delegate; }",
  "struct TokenDelegation { address contract_; uint256 tokenId; address delegate; }",
  "struct DelegationInfo { uint8 type_; address vault; address delegate; address contract_; uint256 tokenId; }",
  "function checkDelegateForAll(address delegate, address vault) view returns (bool)",
  "function checkDelegateForContract(address delegate, address vault, address contract_) view returns (bool)",
  "function checkDelegateForToken(address delegate, address vault, address contract_, uint256 tokenId) view returns (bool)",
  "function getDelegatesForAll(address vault) view returns (address[])",
  "function getContractLevelDelegations(address vault) view returns (ContractDelegation[])",
  "function getTokenLevelDelegations(address vault) view returns (TokenDelegation[])",
  "function getDelegationsByDelegate(address delegate) view returns (DelegationInfo[])",
]);

/** The v2 registry. */
export const registryV2Abi = parseAbi([
  "event DelegateAll(address indexed from, address indexed to, bytes32 rights, bool enable)",
  "event DelegateContract(address indexed from, address indexed to, address indexed contract_, bytes32 rights, bool enable)",
  "event DelegateERC721(address indexed from, address indexed to, address indexed contract_, uint256 tokenId, bytes32 rights, bool enable)",
  "event DelegateERC20(address indexed from, address indexed to, address indexed contract_, bytes32 rights, uint256 amount)",
  "event DelegateERC1155(address indexed from, address indexed to, address indexed contract_, uint256 tokenId, bytes32 rights, uint256 amount)",

  "function delegateAll(address to, bytes32 rights, bool enable) payable returns (bytes32)",
  "function delegateContract(address to, address contract_, bytes32 rights, bool enable) payable returns (bytes32)",
  "function delegateERC721(address to, address contract_, uint256 tokenId, bytes32 rights, bool enable) payable returns (bytes32)",
  "function delegateERC20(address to, address contract_, bytes32 rights, uint256 amount) payable returns (bytes32)",
  "function delegateERC1155(address to, address contract_, uint256 tokenId, bytes32 rights, uint256 amount) payable returns (bytes32)",
  "function multicall(bytes[] data) payable returns (bytes[])",

  "struct Delegation { uint8 type_; address to; address from; bytes32 rights; address contract_; uint256 tokenId; uint256 amount; }",
  "function checkDelegateForAll(address to, address from, bytes32 rights) view returns (bool)",
  "function checkDelegateForContract(address to, address from, address contract_, bytes32 rights) view returns (bool)",
  "function checkDelegateForERC721(address to, address from, address contract_, uint256 tokenId, bytes32 rights) view returns (bool)",
  "function checkDelegateForERC20(address to, address from, address contract_, bytes32 rights) view returns (uint256)",
  "function checkDelegateForERC1155(address to, address from, address contract_, uint256 tokenId, bytes32 rights) view returns (uint256)",
  "function getIncomingDelegations(address to) view returns (Delegation[])",
  "function getOutgoingDelegations(address from) view returns (Delegation[])",
]);
