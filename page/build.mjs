// Builds what goes into pictures and what is served, into the Python package.
import { build } from "esbuild";

const common = {
  bundle: true,
  minify: true,
  target: "es2022",
  format: "iife",
  legalComments: "none",
  logLevel: "warning",
};

await build({ ...common, entryPoints: { still: "src/still.ts" }, outdir: "../src/livingdb/render/assets" });
await build({
  ...common,
  entryPoints: { app: "src/app/main.tsx" },
  jsx: "automatic",
  jsxImportSource: "preact",
  outdir: "../src/livingdb/server/page/built",
});
