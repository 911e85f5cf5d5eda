// Preloaded into a child process: it exits when its parent is gone, even after SIGKILL.
process.channel?.unref();
process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
