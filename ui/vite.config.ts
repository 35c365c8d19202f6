/// <reference types="vitest/config" />
import tailwind from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `npm run dev` shows the sources as they change, on the API of a server that runs beside it.
const server = process.env.WINDLASS_URL ?? "http://127.0.0.1:8470";
// The server refuses what a page of another origin wants to change.
const proxied = { target: server, changeOrigin: true, headers: { origin: server } };

export default defineConfig({
  plugins: [react(), tailwind()],
  build: {
    outDir: "../src/windlass/_ui",
    emptyOutDir: true,
    // The page's policy allows no inline content.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    // Few files compress better than many: a part for jobs, which is what people come for, and one for the other places.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: "jobs", test: /src\/(jobs|components|lib|api)\/|react-virtual|virtual-core/ },
            { name: "places", test: /src\/(workflows|schedules|runs)\// },
          ],
        },
      },
    },
  },
  worker: { format: "es" },
  server: {
    host: "127.0.0.1",
    proxy: Object.fromEntries(["/api", "/health", "/metrics"].map((path) => [path, proxied])),
  },
  test: { include: ["src/**/*.test.{ts,tsx}"] },
});
