import { createHash } from "node:crypto";
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import { ASSETS_PATH, PAGES, type PageName } from "./pages.ts";

// Bundles the scripts and styles of the pages: npm run build

const WEB = import.meta.dirname;
const ROOT = join(WEB, "..");
const DIST = join(WEB, "dist");
const CLIENT = "client/src";
/** The table of checks: it imports only types. */
const CHECKS = "registry/checks.ts";
const DRAFT = "draft-";
const MANIFEST = "manifest.json";

/** Names of a page's files. */
type PageFiles = { script: string; style: string };
type Manifest = { icon: string; theme: string; pages: Record<PageName, PageFiles>; files: string[] };

/** A file's content, also compressed. */
export type Asset = { content: Buffer; brotli: Buffer; gzip: Buffer };

/** All built files. A file's name includes a hash of its content. */
export type Assets = Omit<Manifest, "files"> & { files: ReadonlyMap<string, Asset> };

/** Loads the built files from web/dist, and builds them first if those of the current source are missing. */
export const loadAssets = async (): Promise<Assets> => {
  const folder = join(DIST, await hashSources());
  const text = await readFile(join(folder, MANIFEST), "utf8").catch(() => buildAssets(folder));
  const { files, ...manifest }: Manifest = JSON.parse(text);
  const read = (name: string) => readFile(join(folder, name));
  const load = async (name: string): Promise<[string, Asset]> => [
    name,
    { content: await read(name), brotli: await read(`${name}.br`), gzip: await read(`${name}.gz`) },
  ];
  return { ...manifest, files: new Map(await Promise.all(files.map(load))) };
};

/** Hashes the source files, and package.json for the versions of packages. */
const hashSources = async (): Promise<string> => {
  const listFiles = async (folder: string) => {
    const entries = await readdir(join(ROOT, folder), { recursive: true, withFileTypes: true });
    return entries
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => relative(ROOT, join(parentPath, name)));
  };
  const sources = await Promise.all([CLIENT, "web/shared", ...PAGES.map(({ name }) => `web/${name}`)].map(listFiles));
  const files = ["package.json", CHECKS, "web/build.ts", "web/pages.ts", ...sources.flat()];
  const hash = createHash("sha256");
  for (const file of files.sort()) hash.update(`${file}\0`).update(await readFile(join(ROOT, file)));
  return hash.digest("hex").slice(0, 16);
};

/** Builds into a draft folder and renames it, because other processes may build at the same time. */
const buildAssets = async (folder: string): Promise<string> => {
  const draft = await createDraft();
  try {
    const manifest = JSON.stringify(await bundle(draft), null, 2);
    await writeFile(join(draft, MANIFEST), manifest);
    // In a container, the user who runs the service is not the one who built it.
    await chmod(draft, 0o755);
    await rename(draft, folder).catch((error) => {
      if (!["ENOTEMPTY", "EEXIST"].includes(error.code)) throw error;
    });
    await removeOtherBuilds(folder);
    return await readFile(join(folder, MANIFEST), "utf8");
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
};

const createDraft = async (): Promise<string> => {
  try {
    await mkdir(DIST, { recursive: true });
    return await mkdtemp(join(DIST, DRAFT));
  } catch (error) {
    const message = "The pages are not built. Run npm run build as a user who may write to web/dist.";
    throw new Error(message, { cause: error });
  }
};

const removeOtherBuilds = async (folder: string): Promise<void> => {
  const others = (await readdir(DIST)).filter((name) => name !== basename(folder) && !name.startsWith(DRAFT));
  await Promise.all(others.map((name) => rm(join(DIST, name), { recursive: true, force: true })));
};

const bundle = async (folder: string): Promise<Manifest> => {
  rejectOutsideInputs(await runEsbuild(folder));
  const files = (await readdir(folder)).sort();
  await Promise.all(files.map((name) => compress(join(folder, name))));

  const findFile = (prefix: string, extension: string): string => {
    const found = files.find((file) => file.startsWith(`${prefix}-`) && file.endsWith(extension));
    if (!found) throw new Error(`The page "${prefix}" has no ${extension} file. Import one in its main file.`);
    return found;
  };
  const pages = PAGES.map(({ name }) => [name, { script: findFile(name, ".js"), style: findFile(name, ".css") }]);
  return { icon: findFile("icon", ".svg"), theme: findFile("theme", ".js"), pages: Object.fromEntries(pages), files };
};

type Outputs = Record<string, { inputs: Record<string, unknown> }>;

const runEsbuild = async (folder: string): Promise<Outputs> => {
  // Loaded here, because a built service runs without it.
  const { build } = await import("esbuild");
  const options = {
    absWorkingDir: WEB,
    outdir: folder,
    bundle: true,
    minify: true,
    metafile: true,
    write: true,
    target: "es2022",
    entryNames: "[name]-[hash]",
    legalComments: "none",
    logLevel: "silent",
  } as const;
  // The explorer loads it when somebody asks for a proof.
  const proof = await build({
    ...options,
    entryPoints: [{ out: "verify-proof", in: `../${CLIENT}/proof.ts` }],
    format: "esm",
  });
  const [proofFile = ""] = Object.keys(proof.metafile.outputs);
  const mains = await Promise.all(
    PAGES.map(async ({ name }) => ({ out: name, in: `${name}/${await findMain(name)}` })),
  );
  const [modules, others] = await Promise.all([
    build({
      ...options,
      entryPoints: mains,
      format: "esm",
      jsx: "automatic",
      jsxImportSource: "preact",
      define: { VERIFY_PROOF: JSON.stringify(`${ASSETS_PATH}/${basename(proofFile)}`) },
      external: [`${ASSETS_PATH}/*`],
    }),
    // The theme has to be set before the first paint. Browsers wait for a classic script, not for a module.
    build({
      ...options,
      entryPoints: [
        { out: "theme", in: "shared/theme.ts" },
        { out: "icon", in: "shared/icon.svg" },
      ],
      format: "iife",
      loader: { ".svg": "copy" },
    }),
  ]);
  return { ...proof.metafile.outputs, ...modules.metafile.outputs, ...others.metafile.outputs };
};

const findMain = async (name: PageName): Promise<string> =>
  (await readdir(join(WEB, name))).find((file) => /^main\.tsx?$/.test(file)) ?? "main.tsx";

/** A change of another file would not cause a new build: see hashSources(). */
const rejectOutsideInputs = (outputs: Outputs): void => {
  const inputs = Object.values(outputs).flatMap(({ inputs }) => Object.keys(inputs));
  const known = ["../node_modules/", `../${CLIENT}/`, `../${CHECKS}`];
  const isKnown = (file: string) => !file.startsWith("..") || known.some((path) => file.startsWith(path));
  const outside = inputs.filter((file) => !isKnown(file));
  if (outside.length > 0) {
    throw new Error(
      `Pages may import only types from outside of web/, ${CLIENT}/ and ${CHECKS}: ${outside.join(", ")}`,
    );
  }
};

const compress = async (file: string): Promise<void> => {
  const content = await readFile(file);
  const params = { [constants.BROTLI_PARAM_SIZE_HINT]: content.length };
  await writeFile(`${file}.br`, await promisify(brotliCompress)(content, { params }));
  await writeFile(`${file}.gz`, await promisify(gzip)(content, { level: constants.Z_BEST_COMPRESSION }));
};

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const { files } = await loadAssets();
  for (const [name, { brotli }] of files) {
    console.log(`${(brotli.length / 1000).toFixed(1).padStart(7)} kB  ${basename(name)}`);
  }
}
