import { Hono } from "hono";

// Ponder does not start without an API file.
export default new Hono();
