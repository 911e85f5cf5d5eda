import { extendZodWithOpenApi } from "@asteasolutions/zod-to-openapi";
import { z } from "zod";

extendZodWithOpenApi(z);

/** zod, with which a schema can also say what the OpenAPI document shows of it. */
export { z };
