// Serves the build with the answers of the fixture server of the tests, to look at pages without `weir serve`.
import { runnerImport } from "vite";

const { module } = await runnerImport(new URL("../tests/fixture-server.ts", import.meta.url).pathname);
const server = await module.startFixture(Number(process.env.PORT ?? 2080));
console.log(server.address);
