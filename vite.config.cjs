// Ponder loads its files with Vite, which would watch the whole project for changes. CommonJS, as Vite writes a file beside
// any other config when it reads it, and containers cannot write.
module.exports = { server: { watch: null } };
