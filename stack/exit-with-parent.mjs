// Preloaded into a child process: when its parent is gone, even by SIGKILL, it ends too.
process.channel?.unref();
process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
