#!/usr/bin/env node
// Starts the program from the package of this platform. Plain Node 18 or later, no dependencies, no install script.
"use strict";

const { spawn } = require("node:child_process");
const os = require("node:os");
const tty = require("node:tty");
const { homepage, optionalDependencies } = require("../package.json");

const PASSED_ON = ["SIGINT", "SIGTERM", "SIGHUP"];

function libc() {
  if (process.platform !== "linux") return "";
  // Else the report looks up the names of network peers.
  process.report.excludeNetwork = true;
  return process.report.getReport().header.glibcVersionRuntime ? "-gnu" : "-musl";
}

function fail(lines) {
  console.error(lines.join("\n"));
  process.exit(1);
}

function find() {
  const machine = `${process.platform}-${process.arch}`;
  const ofMachine = Object.keys(optionalDependencies).filter((name) => name.startsWith(`@longhaul/${machine}`));
  for (const name of ofMachine) {
    try {
      return require.resolve(`${name}/bin/longhaul`);
    } catch {
      // It is not installed.
    }
  }
  const wanted = `@longhaul/${machine}${libc()}`;
  const other = `Other ways to install it, such as install.sh or cargo: ${homepage}`;
  if (!ofMachine.includes(wanted)) {
    return fail([`longhaul: there is no package with the program for this machine (${wanted}).`, other]);
  }
  return fail([
    `longhaul: the package ${wanted} with the program for this machine is not installed.`,
    "It is an optional dependency: install again without --no-optional or --omit=optional, on this machine and not on",
    `another one, and without a lock file that was written elsewhere. Or: npm install ${wanted}@${optionalDependencies[wanted]}`,
    other,
  ]);
}

const program = find();
// A terminal sends Ctrl-C to the program as well, and a second one would mean more to it.
const hasTerminal = [0, 1, 2].some((fd) => tty.isatty(fd));
const handlers = PASSED_ON.map((signal) => [signal, () => (signal === "SIGINT" && hasTerminal) || child.kill(signal)]);
// Before the program starts: a signal may come at once.
for (const [signal, handler] of handlers) process.on(signal, handler);

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });

child.on("error", (error) => {
  // The loader of a program for another libc is missing: then the system says that there is no such file.
  const why = error.code === "ENOENT" ? "it is for another kind of system, such as one with glibc" : error.message;
  fail([`longhaul: ${program} cannot be started: ${why}`, `Other ways to install it, such as install.sh or cargo: ${homepage}`]);
});

child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  for (const [signal, handler] of handlers) process.removeListener(signal, handler);
  process.kill(process.pid, signal);
  // Node survives a few signals: then the code that a shell gives for them.
  setTimeout(() => process.exit(128 + os.constants.signals[signal]), 100);
});
