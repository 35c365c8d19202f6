/// <reference types="vitest/config" />
import tailwind from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `npm run dev` shows the sources as they change, on the API of a server that runs beside it.
const server = process.env.WINDLASS_URL ?? "http://127.0.0.1:8470";

export default defineConfig({
  plugins: [react(), tailwind()],
  build: {
    outDir: "../src/windlass/_ui",
    emptyOutDir: true,
    // The page's policy allows no inline content.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
  },
  worker: { format: "es" },
  server: { host: "127.0.0.1", proxy: { "/api": server, "/health": server, "/metrics": server } },
  test: { include: ["src/**/*.test.{ts,tsx}"] },
});
