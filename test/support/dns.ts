import { createSocket } from "node:dgram";
import type { AddressInfo } from "node:net";

const HEADER_BYTES = 12;
const TYPE_A = 1;
const NO_SUCH_NAME = 3;

/** Starts a name server for IPv4 addresses, like Docker's. */
export const startNameServer = async (lookUp: (name: string) => readonly string[]) => {
  const socket = createSocket("udp4");
  socket.on("message", (query, client) => socket.send(answer(query, lookUp), client.port, client.address));
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  const { port }: AddressInfo = socket.address();
  return { port, stop: () => new Promise<void>((resolve) => socket.close(() => resolve())) };
};

const answer = (query: Buffer, lookUp: (name: string) => readonly string[]): Buffer => {
  const labels: string[] = [];
  let end = HEADER_BYTES;
  for (let length = query[end] ?? 0; length > 0; length = query[end] ?? 0) {
    labels.push(query.toString("latin1", end + 1, end + 1 + length));
    end += length + 1;
  }
  const question = query.subarray(HEADER_BYTES, end + 5);
  const addresses = lookUp(labels.join("."));
  const isAsked = query.readUInt16BE(end + 1) === TYPE_A;
  const records = (isAsked ? addresses : []).map((address) => {
    // A pointer to the question's name, type, class, a TTL of 600 s as Docker has, and a length of four bytes.
    const head = [0xc0, HEADER_BYTES, 0, TYPE_A, 0, 1, 0, 0, 2, 0x58, 0, 4];
    return Buffer.from([...head, ...address.split(".").map(Number)]);
  });
  const header = Buffer.alloc(HEADER_BYTES);
  query.copy(header, 0, 0, 2);
  header.writeUInt16BE(0x8180 | (addresses.length === 0 ? NO_SUCH_NAME : 0), 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  return Buffer.concat([header, question, ...records]);
};
