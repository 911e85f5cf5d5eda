import { createSocket } from "node:dgram";
import { readFileSync } from "node:fs";
import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import { type AddressInfo, BlockList, createServer as createTcpServer, isIPv4, type Server } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { isPublicAddress } from "../../../api/webhooks/receiver-address.ts";
import { createResolve, createSender, type Resolve } from "../../../api/webhooks/send-message.ts";
import { startHttp } from "../../support/http.ts";
import { ROOT } from "../../support/run.ts";

/** The key and the self-made certificate of receiver.example. */
const PEM = readFileSync(join(ROOT, "test/support/receiver.pem"), "utf8");
const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");

const listen = async (server: Server, host: string): Promise<number> => {
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
};

/** Starts a TLS server, which counts its connections. */
const startTls = async (answer: RequestListener, host = "127.0.0.1") => {
  const seen = { requests: 0, connections: 0 };
  const server = createServer({ key: PEM, cert: PEM }, (request, response) => {
    seen.requests++;
    answer(request, response);
  });
  server.on("connection", () => seen.connections++);
  onTestFinished(() => server.closeAllConnections());
  return { port: await listen(server, host), seen };
};

/** Resolves every name to these addresses, one list after the other. */
const resolveTo = (...lists: string[][]) => {
  const asked: string[] = [];
  const resolve: Resolve = async (hostname) => {
    asked.push(hostname);
    return lists[Math.min(asked.length, lists.length) - 1] ?? [];
  };
  return { resolve, asked };
};

type Options = Partial<Parameters<typeof createSender>[0]>;

const send = (url: string, options: Options = {}) => {
  const sender = createSender({ allowedNetworks: null, ca: PEM, ...options });
  return sender({ url, headers: { "webhook-id": "msg_1" }, body: '{"a":1}' }, new AbortController().signal);
};

const local = (url: string, options: Options = {}) =>
  send(url, { allowedNetworks: LOOPBACK, resolve: resolveTo(["127.0.0.1"]).resolve, ...options });

test("posts over TLS to the checked address, under the receiver's name", async () => {
  let got = {};
  const { port } = await startTls(async (request, response) => {
    got = { ...request.headers, method: request.method, url: request.url, body: await text(request) };
    response.end("thanks");
  });
  const outcome = await local(`https://receiver.example:${port}/hook?a=b`);
  expect(outcome).toMatchObject({ isDelivered: true, status: 200, error: null, answer: "thanks" });
  expect(got).toMatchObject({
    method: "POST",
    url: "/hook?a=b",
    host: `receiver.example:${port}`,
    "content-type": "application/json",
    "webhook-id": "msg_1",
    body: '{"a":1}',
  });
});

test.for([
  ["of this machine", "127.0.0.1"],
  ["of this machine, IPv6", "::1"],
  ["of no network", "0.0.0.0"],
  ["of no network, IPv6", "::"],
  ["private", "10.1.2.3"],
  ["private", "172.31.255.255"],
  ["private", "192.168.0.1"],
  ["carrier-grade NAT", "100.64.0.1"],
  ["a cloud's metadata", "169.254.169.254"],
  ["a cloud's metadata behind carrier-grade NAT", "100.100.100.200"],
  ["a cloud's metadata, IPv6", "fd00:ec2::254"],
  ["a cloud's services", "168.63.129.16"],
  ["link-local", "fe80::1"],
  ["link-local with a zone", "fe80::1%lo"],
  ["unique local", "fc00::1"],
  ["multicast", "224.0.0.1"],
  ["multicast, IPv6", "ff02::1"],
  ["reserved", "240.0.0.1"],
  ["broadcast", "255.255.255.255"],
  ["documentation", "203.0.113.1"],
  ["documentation, IPv6", "2001:db8::1"],
  ["benchmarks", "198.18.0.1"],
  ["IPv4-mapped", "::ffff:127.0.0.1"],
  ["IPv4-mapped in hex", "::ffff:7f00:1"],
  ["IPv4-compatible", "::127.0.0.1"],
  ["NAT64", "64:ff9b::7f00:1"],
  ["local NAT64", "64:ff9b:1::7f00:1"],
  ["6to4", "2002:7f00:1::"],
  ["Teredo", "2001:0:7f00:1::"],
] as const)("refuses an address that is %s: %s, alone or among public ones", async ([, address]) => {
  expect(isPublicAddress(address.split("%", 1)[0] ?? "")).toBe(false);
  for (const addresses of [[address], ["93.184.216.34", address]]) {
    const outcome = await send("https://receiver.example/", { resolve: resolveTo(addresses).resolve });
    expect(outcome).toMatchObject({ isDelivered: false, status: null });
    expect(outcome.error).not.toContain(address);
    expect(outcome.error).toMatch(
      /^receiver.example has no address, or one that is not public\.$|^The connection failed/,
    );
  }
});

test("public addresses are public", () => {
  for (const address of ["1.1.1.1", "93.184.216.34", "172.15.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"]) {
    expect(isPublicAddress(address), address).toBe(true);
  }
});

test("refuses addresses in place of names, however they are written", async () => {
  const { port, seen } = await startTls((_, response) => response.end());
  const { resolve, asked } = resolveTo(["93.184.216.34"]);
  for (const host of [
    "127.0.0.1",
    "2130706433",
    "0x7f.1",
    "0177.0.0.1",
    "127.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
  ]) {
    for (const url of [`https://${host}/`, `https://${host}:${port}/`]) {
      expect((await send(url, { resolve })).error, url).toContain("not public");
    }
  }
  expect(asked).toEqual([]);
  expect(seen.connections).toBe(0);
});

test("names of this machine are no way in", async () => {
  for (const name of ["localhost", "LOCALHOST", "localhost."]) {
    expect((await send(`https://${name}/`)).error, name).toContain("not public");
  }
});

/** Starts a DNS server that gives every name these addresses, in one answer for each family. */
const startDns = async (addresses: readonly string[]): Promise<string> => {
  const server = createSocket("udp4", (query, { port }) => {
    // After the header, the name ends with an empty label; the type of the question follows.
    const end = query.indexOf(0, 12) + 5;
    const isV4 = query.readUInt16BE(end - 4) === 1;
    const records = addresses.flatMap((address) => {
      if (isIPv4(address) !== isV4) return [];
      const bytes = isV4 ? address.split(".").map(Number) : [...Buffer.from(address.replaceAll(":", ""), "hex")];
      // The name of the question, its type, the class of the internet, a minute, and the address.
      return [Buffer.from([0xc0, 12, 0, isV4 ? 1 : 28, 0, 1, 0, 0, 0, 60, 0, bytes.length, ...bytes])];
    });
    const header = Buffer.from([...query.subarray(0, 2), 0x81, 0x80, 0, 1, 0, records.length, 0, 0, 0, 0]);
    server.send(Buffer.concat([header, query.subarray(12, end), ...records]), port, "127.0.0.1");
  });
  await new Promise<void>((resolve) => server.bind(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return `127.0.0.1:${server.address().port}`;
};

test("DNS gives all addresses of a name, of both families: one that is not public refuses all", async () => {
  const isPublic = ["93.184.216.34", "2606:4700:0000:0000:0000:0000:0000:1111"];
  const { signal } = new AbortController();
  const resolve = createResolve([await startDns(isPublic)]);
  expect(await resolve("receiver.example", signal)).toEqual(["93.184.216.34", "2606:4700::1111"]);
  for (const address of ["10.1.2.3", "fd00:0ec2:0000:0000:0000:0000:0000:0254"]) {
    const resolve = createResolve([await startDns([...isPublic, address])]);
    expect((await resolve("receiver.example", signal)).length).toBe(3);
    expect((await send("https://receiver.example/", { resolve })).error).toBe(
      "receiver.example has no address, or one that is not public.",
    );
  }
});

test("connects to the address that was checked, although the name has another one by then (DNS rebinding)", async () => {
  const target = await startTls((_, response) => response.end("the right one"), "127.0.0.2");
  const { resolve, asked } = resolveTo(["127.0.0.2"], ["127.0.0.1"]);
  const outcome = await local(`https://receiver.example:${target.port}/`, { resolve });
  expect(outcome.answer).toBe("the right one");
  expect(asked).toEqual(["receiver.example"]);
});

test("http and other ports are for networks of the operator", async () => {
  const { url } = await startHttp((_, response) => response.end());
  expect((await local(url)).isDelivered).toBe(true);
  const { resolve } = resolveTo(["93.184.216.34"]);
  for (const url of ["http://receiver.example/", "https://receiver.example:8443/", "http://receiver.example:443/"]) {
    const outcome = await send(url, { resolve, allowedNetworks: LOOPBACK });
    expect(outcome.error, url).toBe("A receiver needs https:// and port 443.");
  }
  expect((await send("https://user:secret@receiver.example/", { resolve })).error).toContain("user name");
});

test("the certificate has to be valid for the name", async () => {
  const { port, seen } = await startTls((_, response) => response.end());
  expect(await local(`https://other.example:${port}/`)).toMatchObject({
    isDelivered: false,
    error: "The connection failed: ERR_TLS_CERT_ALTNAME_INVALID.",
  });
  const { NODE_TLS_REJECT_UNAUTHORIZED: before } = process.env;
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
  onTestFinished(() => {
    if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before;
  });
  const sender = createSender({ allowedNetworks: LOOPBACK, resolve: resolveTo(["127.0.0.1"]).resolve });
  const message = { url: `https://receiver.example:${port}/`, headers: {}, body: "" };
  expect(await sender(message, new AbortController().signal)).toMatchObject({
    isDelivered: false,
    error: "The connection failed: DEPTH_ZERO_SELF_SIGNED_CERT.",
  });
  expect(seen.requests).toBe(0);
});

test.for([301, 302, 303, 307, 308])("follows no redirect: %i", async (status) => {
  const inside = await startHttp((_, response) => response.end("secret"));
  const { url } = await startHttp((_, response) => response.writeHead(status, { Location: inside.url }).end());
  const outcome = await local(url);
  expect(outcome).toMatchObject({
    isDelivered: false,
    status,
    error: `Answered ${status}: redirects are not followed.`,
  });
  expect(inside.seen).toEqual([]);
});

test("reads little of an endless answer", async () => {
  let written = 0;
  const { url, sockets } = await startHttp((_, response) => {
    response.writeHead(200);
    const chunk = Buffer.alloc(65_536, "x");
    const write = () => {
      written += chunk.length;
      if (!response.destroyed) response.write(chunk, write);
    };
    write();
  });
  const outcome = await local(url);
  expect(outcome).toMatchObject({ isDelivered: true, answer: "x".repeat(1_024) });
  // What fits into the buffers of a connection, not more.
  expect(written).toBeLessThan(32_000_000);
  expect([...sockets].every(({ destroyed }) => destroyed) || sockets.size <= 1).toBe(true);
});

test.for([
  ["says nothing", () => {}],
  ["sends headers without end", (write: (text: string) => boolean) => void write("HTTP/1.1 200 OK\r\nX-A: b\r\n")],
] as const)("gives up after the deadline on a server that %s", async ([, greet]) => {
  const server = createTcpServer((socket) => {
    socket.on("error", () => {});
    greet((text) => socket.write(text));
  });
  const port = await listen(server, "127.0.0.1");
  const outcome = await local(`http://127.0.0.1:${port}/`, { deadlineMs: 300 });
  expect(outcome).toMatchObject({ isDelivered: false, status: null, error: "No answer within 0.3 s." });
});

test("gives up after the deadline on a name whose servers are silent", async () => {
  const outcome = await send("https://receiver.example/", { resolve: () => new Promise(() => {}), deadlineMs: 200 });
  expect(outcome.error).toBe("No answer within 0.2 s.");
});

test("a 2xx in time is a delivery, whatever becomes of the rest of the answer", async () => {
  const broken = await startHttp(async (request, response) => {
    await text(request);
    response.writeHead(200, { "Content-Length": "100" }).write("half");
    response.socket?.end();
  });
  expect(await local(broken.url)).toMatchObject({ isDelivered: true, status: 200, answer: "half" });
  const slow = await startHttp((_, response) => void response.writeHead(202).write("a\0b"));
  expect(await local(slow.url, { deadlineMs: 300 })).toMatchObject({
    isDelivered: true,
    status: 202,
    answer: "a\uFFFDb",
  });
});

test("a 2xx whose body does not come is a delivery after a second, not after the deadline", async () => {
  const slow = await startHttp((_, response) => void response.writeHead(200).write("half"));
  expect(await local(slow.url, { deadlineMs: 3_600_000 })).toMatchObject({ isDelivered: true, answer: "half" });
});

test("ends a flood of early answers", async () => {
  let written = 0;
  const server = createTcpServer((socket) => {
    socket.on("error", () => {});
    const write = () => {
      written++;
      if (!socket.destroyed) socket.write("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", write);
    };
    write();
  });
  const port = await listen(server, "127.0.0.1");
  const outcome = await local(`http://127.0.0.1:${port}/`, { deadlineMs: 3_600_000 });
  expect(outcome).toMatchObject({ isDelivered: false, status: null, error: "Answered 1xx again and again." });
  expect(written).toBeGreaterThan(8);
  const { url } = await startHttp((_, response) => {
    for (let count = 0; count < 8; count++) response.writeEarlyHints({ link: "</a>" });
    response.end("thanks");
  });
  expect(await local(url)).toMatchObject({ isDelivered: true, answer: "thanks" });
});

test("tells how long an answer took, and nothing of the time in which there was none", async () => {
  const { url } = await startHttp((_, response) => response.end());
  expect((await local(url)).milliseconds).toBeGreaterThanOrEqual(0);
  expect(
    (await send("https://receiver.example/", { resolve: resolveTo(["10.1.2.3"]).resolve })).milliseconds,
  ).toBeNull();
});

test("headers without measure, and a change of protocol, are no answer", async () => {
  for (const head of [
    `HTTP/1.1 200 OK\r\nX-A: ${"b".repeat(20_000)}\r\n\r\n`,
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
  ]) {
    const server = createTcpServer((socket) => {
      socket.on("error", () => {});
      socket.end(head);
    });
    const outcome = await local(`http://127.0.0.1:${await listen(server, "127.0.0.1")}/`);
    expect(outcome).toMatchObject({
      isDelivered: false,
      status: null,
      error: expect.stringMatching(/^The connection failed/),
    });
  }
});
