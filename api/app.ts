import { OpenAPIHono } from "@hono/zod-openapi";
import { cors } from "hono/cors";
import { requestId } from "hono/request-id";
import type { Source } from "./answering.ts";
import { type Admission, admit } from "./middleware/admit.ts";
import { refuseEarly } from "./middleware/refuse-early.ts";
import { requestLog } from "./middleware/request-log.ts";
import { describeService } from "./openapi.ts";
import { Problem, problemResponse } from "./problem.ts";
import { addChecks } from "./routes/checks.ts";
import { addHealth, type Build } from "./routes/health.ts";
import { addLists } from "./routes/lists.ts";
import { addReference } from "./routes/reference.ts";

const EXPOSED_HEADERS = [
  "X-Indexed-Block",
  "X-Indexed-Block-Timestamp",
  "X-Finalized-Block",
  "RateLimit-Policy",
  "RateLimit",
  "Retry-After",
  "Link",
  "X-Request-Id",
];

/** The whole service, apart from the server that it runs on. */
export const createApp = (source: Source, admission: Admission, build: Build): OpenAPIHono => {
  // A slash at the end makes no difference.
  const app = new OpenAPIHono({ strict: false });
  const { log } = source;

  app.use(requestId());
  app.use(requestLog(log));
  app.use(
    cors({
      origin: "*",
      allowMethods: ["GET", "HEAD", "OPTIONS"],
      allowHeaders: ["X-API-KEY"],
      exposeHeaders: EXPOSED_HEADERS,
      maxAge: 86_400,
    }),
  );
  app.use("/registry/*", admit(admission));
  app.use(refuseEarly);

  addChecks(app, source);
  addLists(app, source);
  addHealth(app, source.shards, build);
  const document = describeService(app, build.version);
  app.get("/openapi.json", (context) => context.json(document));
  addReference(app, document);

  app.notFound(() =>
    problemResponse(new Problem("not-found", "There is nothing at this path. /docs lists what there is.")),
  );
  app.onError((error, context) => {
    if (error instanceof Problem) return problemResponse(error);
    const requestId = context.get("requestId" as never);
    log.error({ err: error, requestId }, "Unexpected error");
    return problemResponse(new Problem("internal-error", `Something went wrong here. Its number is ${requestId}.`));
  });
  return app;
};
