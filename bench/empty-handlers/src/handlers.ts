import { ponder } from "ponder:registry";

// The same app with empty handlers: only Ponder's own work remains.

const doNothing = async () => {};

ponder.on("RegistryV1:DelegateForAll", doNothing);
ponder.on("RegistryV1:DelegateForContract", doNothing);
ponder.on("RegistryV1:DelegateForToken", doNothing);
ponder.on("RegistryV1:RevokeAllDelegates", doNothing);
ponder.on("RegistryV1:RevokeDelegate", doNothing);

ponder.on("RegistryV2:DelegateAll", doNothing);
ponder.on("RegistryV2:DelegateContract", doNothing);
ponder.on("RegistryV2:DelegateERC721", doNothing);
ponder.on("RegistryV2:DelegateERC20", doNothing);
ponder.on("RegistryV2:DelegateERC1155", doNothing);

ponder.on("NewestBlock:block", doNothing);
