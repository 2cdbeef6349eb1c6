import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";
import { world } from "./scripts/world.ts";

const target = process.env.WEIR_SERVE_URL ?? "http://127.0.0.1:2080";
// The server refuses changes that come from pages of another address.
const proxy = { "/api": { target, changeOrigin: true, headers: { origin: new URL(target).origin } } };

// Addresses are relative, so that the pages also work behind a proxy that serves them in a folder. Nothing is inlined as
// `data:`: the content security policy allows files of the own host only.
export default defineConfig({
  base: "./",
  plugins: [svelte(), world()],
  build: {
    target: "es2022",
    manifest: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy },
  preview: { proxy },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
