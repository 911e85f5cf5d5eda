import { PROBLEMS, type ProblemName } from "../../api/problem.ts";
import type { FuzzRequest } from "./fuzz.ts";
import type { HttpAnswer } from "./http.ts";

// What every answer has to be, whatever was asked.

const STATUSES = new Set<number>([200, 201, 204, 304, ...Object.values(PROBLEMS).map(({ status }) => status)]);
const HEADERS = new Set(
  (
    "access-control-allow-headers access-control-allow-methods access-control-allow-origin access-control-expose-headers " +
    "access-control-max-age age allow cache-control connection content-encoding content-length content-security-policy " +
    "content-type cross-origin-resource-policy date etag keep-alive link ratelimit ratelimit-policy referrer-policy " +
    "retry-after set-cookie transfer-encoding vary x-answered-block x-answered-block-final x-content-type-options " +
    "x-finalized-block x-indexed-block x-indexed-block-timestamp x-request-id"
  ).split(" "),
);
const STACK_TRACE = /\n\s+at |node:internal|node_modules|\.[jt]s:\d+|Error: /;

export const isDocumented = (status: number) => STATUSES.has(status) && (status < 500 || status === 503);

/** Describes the fault of an answer, whatever was asked; null if it has none. */
export const findFault = ({ method }: FuzzRequest, { status, headers, body }: HttpAnswer): string | null => {
  if (!isDocumented(status)) return "its status is not documented";
  const unknown = Object.keys(headers).find((name) => !HEADERS.has(name));
  if (unknown !== undefined) return `it has the header ${unknown}`;
  if (!/^[\w\-=]{1,255}$/.test(String(headers["x-request-id"] ?? "none"))) return "its request id is odd";
  if (headers["set-cookie"] && (headers["access-control-allow-origin"] || headers["cache-control"] !== "no-store")) {
    return "others may read or keep its cookie";
  }
  const type = String(headers["content-type"]);
  const isPage = type.startsWith("text/") || headers["content-encoding"];
  if (!isPage && STACK_TRACE.test(body)) return "it has a stack trace";
  if (status < 300 && type.startsWith("text/html") && !headers["content-security-policy"]) return "it has no policy";
  if (status >= 400 && type !== "application/problem+json") return "it is not a problem document";
  if (status === 204 || status === 304 || method === "HEAD") return body === "" ? null : "it has a body";
  return status < 300 ? null : findFaultOfProblem(status, headers, body);
};

const findFaultOfProblem = (status: number, headers: HttpAnswer["headers"], body: string): string | null => {
  const { type, title, status: told, detail, errors } = JSON.parse(body);
  const name = /^\/docs#problem-([a-z-]+)$/.exec(type)?.[1] as ProblemName;
  if (PROBLEMS[name]?.status !== status || PROBLEMS[name].title !== title || told !== status)
    return "its problem is unknown";
  if (typeof detail !== "string" || detail === "") return "it does not say why";
  if (status === 503 && !headers["retry-after"]) return "it does not say when to try again";
  if (status === 405 && !headers.allow) return "it does not list the allowed methods";
  const isNamed = Array.isArray(errors) && errors.length > 0;
  return isNamed === (name === "bad-parameter") ? null : "it does not list the bad parameters";
};
