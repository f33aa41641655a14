// What a Prometheus finds at /metrics.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { admin, step } from "./support.mjs";

/** An address that is free now. */
async function freeAddress() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return `127.0.0.1:${port}`;
}

await step("a Prometheus of another user scrapes it", async () => {
  const { METRICS_KEY: metricsKey } = process.env;
  const home = mkdtempSync(join(tmpdir(), "prometheus-"));
  const key = join(home, "longhaul.key");
  copyFileSync(metricsKey, key);
  writeFileSync(
    join(home, "prometheus.yml"),
    `global: {scrape_interval: 1s}
scrape_configs:
  - job_name: longhaul
    static_configs: [{targets: ["${new URL(admin).host}"]}]
    authorization: {credentials_file: ${key}}
`,
  );
  // Only root can become somebody else.
  const other = process.getuid() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  if (other.uid) for (const file of [home, key]) chownSync(file, other.uid, other.gid);
  const address = await freeAddress();
  const prometheus = spawn(
    "prometheus",
    [`--config.file=${home}/prometheus.yml`, `--storage.tsdb.path=${home}/data`, `--web.listen-address=${address}`],
    { ...other, stdio: "ignore" },
  );
  try {
    const value = async (query) => {
      const answer = await fetch(`http://${address}/api/v1/query?query=${encodeURIComponent(query)}`).catch(() => null);
      return answer?.ok ? Number((await answer.json()).data.result[0]?.value[1] ?? NaN) : NaN;
    };
    const wanted = [
      ['up{job="longhaul"}', (up) => up === 1],
      ['longhaul_tasks_created_total{tool="quick"}', (created) => created > 0],
      ['longhaul_tasks{tool="hold",state="running"}', (running) => running > 0],
      ['longhaul_task_duration_seconds_count{tool="quick"}', (ended) => ended > 0],
      ['longhaul_upstream_up{upstream="away"}', (up) => up === 0],
    ];
    for (const [query, fits] of wanted) {
      let found;
      for (let tries = 0; !fits((found = await value(query))); tries += 1) {
        if (tries > 300) throw new Error(`${query} is ${found}`);
        await new Promise((done) => setTimeout(done, 100));
      }
    }
  } finally {
    prometheus.kill();
    rmSync(home, { recursive: true, force: true });
  }
});
