import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import { PAGES, type PageName } from "./pages.ts";

// What pages load, bundled for browsers: node --import tsx web/build.ts

const WEB = import.meta.dirname;
const ROOT = join(WEB, "..");
const DIST = join(WEB, "dist");
const DRAFT = "draft-";
const MANIFEST = "manifest.json";

/** What a page loads, by the names of files. */
type PageFiles = { script: string; style: string };
type Manifest = { icon: string; theme: string; pages: Record<PageName, PageFiles>; files: string[] };

/** A file's content, and the same compressed. */
export type Asset = { content: Buffer; brotli: Buffer; gzip: Buffer };

/** All that pages load. A file's name has a hash of what is in it. */
export type Assets = Omit<Manifest, "files"> & { files: ReadonlyMap<string, Asset> };

/** The built files, from web/dist. They are built first where that does not have those of this very source. */
export const loadAssets = async (): Promise<Assets> => {
  const folder = join(DIST, await hashSources());
  const text = await readFile(join(folder, MANIFEST), "utf8").catch(() => build(folder));
  const { files, ...manifest }: Manifest = JSON.parse(text);
  const read = (name: string) => readFile(join(folder, name));
  const load = async (name: string): Promise<[string, Asset]> => [
    name,
    { content: await read(name), brotli: await read(`${name}.br`), gzip: await read(`${name}.gz`) },
  ];
  return { ...manifest, files: new Map(await Promise.all(files.map(load))) };
};

/** Names what is built after what it is built from. Versions of packages are part of that. */
const hashSources = async (): Promise<string> => {
  const entries = await readdir(WEB, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => relative(ROOT, join(parentPath, name)))
    .filter((file) => !file.startsWith(relative(ROOT, DIST)) && !file.endsWith(".md"));
  const hash = createHash("sha256");
  for (const file of [...files, "package.json"].sort())
    hash.update(`${file}\0`).update(await readFile(join(ROOT, file)));
  return hash.digest("hex").slice(0, 16);
};

/** Builds into a folder, which is there as a whole or not at all: other processes may be doing the same. */
const build = async (folder: string): Promise<string> => {
  await mkdir(DIST, { recursive: true });
  const draft = await mkdtemp(join(DIST, DRAFT));
  try {
    const manifest = JSON.stringify(await bundle(draft), null, 2);
    await writeFile(join(draft, MANIFEST), manifest);
    await rename(draft, folder).catch((error) => {
      if (!["ENOTEMPTY", "EEXIST"].includes(error.code)) throw error;
    });
    await removeOthers(folder);
    return await readFile(join(folder, MANIFEST), "utf8");
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
};

/** Removes what was built from another source. */
const removeOthers = async (folder: string): Promise<void> => {
  const others = (await readdir(DIST)).filter((name) => name !== basename(folder) && !name.startsWith(DRAFT));
  await Promise.all(others.map((name) => rm(join(DIST, name), { recursive: true, force: true })));
};

const bundle = async (folder: string): Promise<Manifest> => {
  // Needed where something is to be built, and nowhere else.
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
  const mains = await Promise.all(
    PAGES.map(async ({ name }) => ({ out: name, in: `${name}/${await findMain(name)}` })),
  );
  const [modules, others] = await Promise.all([
    build({ ...options, entryPoints: mains, format: "esm", jsx: "automatic", jsxImportSource: "preact" }),
    // The theme is set before anything is painted: by a script that the page waits for, so not by a module.
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
  const outputs = { ...modules.metafile.outputs, ...others.metafile.outputs };
  refuseOutsiders(outputs);
  const files = (await readdir(folder)).sort();
  await Promise.all(files.map((name) => compress(join(folder, name))));

  const nameOf = (prefix: string, extension: string): string => {
    const found = files.find((file) => file.startsWith(`${prefix}-`) && file.endsWith(extension));
    if (!found) throw new Error(`The page "${prefix}" has no ${extension}: its main file has to import one.`);
    return found;
  };
  const pages = PAGES.map(({ name }) => [name, { script: nameOf(name, ".js"), style: nameOf(name, ".css") }]);
  return { icon: nameOf("icon", ".svg"), theme: nameOf("theme", ".js"), pages: Object.fromEntries(pages), files };
};

const findMain = async (name: PageName): Promise<string> =>
  (await readdir(join(WEB, name))).find((file) => /^main\.tsx?$/.test(file)) ?? "main.tsx";

/** What is built from a file elsewhere would not be built anew when that changes: see hashSources(). */
const refuseOutsiders = (outputs: Record<string, { inputs: Record<string, unknown> }>): void => {
  const inputs = Object.values(outputs).flatMap(({ inputs }) => Object.keys(inputs));
  const outside = inputs.filter((file) => file.startsWith("..") && !file.startsWith("../node_modules/"));
  if (outside.length > 0) throw new Error(`Pages can use types alone of what is not in web/: ${outside.join(", ")}`);
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
