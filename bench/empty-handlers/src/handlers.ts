import { ponder } from "ponder:registry";

// The same app without what we do: all that is left is Ponder's own work.

const nothing = async () => {};

ponder.on("RegistryV1:DelegateForAll", nothing);
ponder.on("RegistryV1:DelegateForContract", nothing);
ponder.on("RegistryV1:DelegateForToken", nothing);
ponder.on("RegistryV1:RevokeAllDelegates", nothing);
ponder.on("RegistryV1:RevokeDelegate", nothing);

ponder.on("RegistryV2:DelegateAll", nothing);
ponder.on("RegistryV2:DelegateContract", nothing);
ponder.on("RegistryV2:DelegateERC721", nothing);
ponder.on("RegistryV2:DelegateERC20", nothing);
ponder.on("RegistryV2:DelegateERC1155", nothing);

ponder.on("NewestBlock:block", nothing);
