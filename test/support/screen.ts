/** Renders what a program has written to a terminal: the lines that a user sees, without colors. */
export const renderScreen = (written: string): string[] => {
  const lines = [""];
  let [row, column] = [0, 0];
  for (const [, count = "", code, text = ""] of written.matchAll(TOKEN)) {
    const distance = Number(count || 1);
    if (code === "A") row = Math.max(0, row - distance);
    else if (code === "B") row += distance;
    else if (code === "G" || text === "\r") column = 0;
    else if (code === "K") lines[row] = count === "2" ? "" : (lines[row] ?? "").slice(0, column);
    else if (text === "\n") [row, column] = [row + 1, 0];
    else if (text) {
      const line = (lines[row] ?? "").padEnd(column);
      lines[row] = line.slice(0, column) + text + line.slice(column + text.length);
      column += text.length;
    }
  }
  return Array.from(lines, (line) => (line ?? "").trimEnd()).filter((line) => line !== "");
};

/** A control sequence, an end of line, or text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what this reads
const TOKEN = /\x1b\[\??(\d*)[;\d]*([A-Za-z])|([\r\n]|[^\x1b\r\n]+)/g;
