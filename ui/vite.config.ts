/// <reference types="vitest/config" />
import tailwind from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `npm run dev` serves the sources with the API of a running server.
const server = process.env.WINDLASS_URL ?? "http://127.0.0.1:8470";
// The server rejects write requests from other origins.
const proxy = { target: server, changeOrigin: true, headers: { origin: server } };

export default defineConfig({
  plugins: [react(), tailwind()],
  build: {
    outDir: "../src/windlass/_ui",
    emptyOutDir: true,
    // The content security policy forbids inline content.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    // Few files compress better than many: one chunk for jobs, and one for the other pages.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: "jobs", test: /src\/(jobs|components|lib|api)\/|react-virtual|virtual-core/ },
            { name: "pages", test: /src\/(workflows|schedules|runs)\// },
          ],
        },
      },
    },
  },
  worker: { format: "es" },
  server: {
    host: "127.0.0.1",
    proxy: Object.fromEntries(["/api", "/health", "/metrics"].map((path) => [path, proxy])),
  },
  // The tests are of pure functions: they need no module registry of their own, which takes most of the time.
  test: { include: ["src/**/*.test.{ts,tsx}"], isolate: false },
});
