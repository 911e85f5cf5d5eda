// node process/healthy.mjs <url>: the containers' health check. Exits with 0 if the URL answers without an error.
const [url] = process.argv.slice(2);
const isHealthy = await fetch(url).then(
  ({ ok }) => ok,
  () => false,
);
process.exit(isHealthy ? 0 : 1);
