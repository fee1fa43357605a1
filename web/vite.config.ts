// Bundle of the page, written into the package of the server that serves it.
import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

const PACKAGES = ["three", "@bufbuild/protobuf", "@fontsource-variable/inter"];

/** Writes the licenses of what is bundled with it. */
function licenses(): Plugin {
  const text = (name: string): string => {
    const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
    let license = "";
    try {
      license = readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim();
    } catch {
      license = "Apache License 2.0: https://www.apache.org/licenses/LICENSE-2.0";
    }
    return `${name} ${version}\n\n${license}\n`;
  };
  return {
    name: "licenses",
    generateBundle() {
      const source = PACKAGES.map(text).join(`\n${"-".repeat(80)}\n\n`);
      this.emitFile({ type: "asset", fileName: "licenses.txt", source });
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [licenses()],
  build: {
    outDir: process.env.FARPOINT_WEB_OUT ?? "../server/farpoint_server/web",
    emptyOutDir: true,
    target: "es2022",
    // With light-dark(), which older ones would need twice.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1000,
  },
  worker: { format: "es" },
  server: { proxy: { "^/(farpoint|metrics|readyz)": "http://127.0.0.1:8080" } },
});
