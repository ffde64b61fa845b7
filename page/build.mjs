// Builds what is served and what goes into pictures, into the Python package.
import { build } from "esbuild";

const common = {
  bundle: true,
  minify: true,
  target: "es2022",
  format: "iife",
  legalComments: "none",
  logLevel: "warning",
};

await build({
  ...common,
  entryPoints: ["src/still.ts"],
  outfile: "../src/livingdb/render/assets/still.js",
});
