// Ponder loads its files with Vite, which would watch the whole project for changes.
export default { server: { watch: null } };
