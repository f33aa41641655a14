// The steps of `cargo xtask page`, one after the other: imports that wait would run at once.
import { equal, finish, messages, step } from "./support.mjs";

await import("./actions.mjs");
await import("./prometheus.mjs");
await import("./changing.mjs");
await import("./night.mjs");
await import("./looks.mjs");
await step("the browser has nothing to complain about", () => equal(messages, [], "messages"));
// The last one: the server is gone then.
await import("./drain.mjs");
await finish();
