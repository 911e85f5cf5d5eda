// node stack/healthy.mjs <url>: whether something answers there without an error, for health checks of containers.
const [url] = process.argv.slice(2);
const isHealthy = await fetch(url).then(
  ({ ok }) => ok,
  () => false,
);
process.exit(isHealthy ? 0 : 1);
