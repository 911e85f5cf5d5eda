import { describe, expect, test } from "vitest";
import { formatCsv, parseCsv } from "../../web/checks/csv.ts";

const parseFields = (text: string) => parseCsv(text).rows.map(({ fields }) => fields);

describe("parseCsv()", () => {
  test.for<[string, string]>([
    ["commas", "to,from\na,b\n"],
    ["semicolons", "to;from\na;b\n"],
    ["tabs", "to\tfrom\na\tb\n"],
    ["CRLF", "to,from\r\na,b\r\n"],
    ["CR alone", "to,from\ra,b"],
    ["no line break at the end", "to,from\na,b"],
    ["a byte order mark", "\ufeffto,from\na,b\n"],
    ["quotes", '"to","from"\n"a","b"\n'],
    ["spaces around quotes", 'to, "from"\na, "b"\n'],
    ["blank lines", "\n\nto,from\n\n , \na,b\n,\n\n"],
  ])("reads %s", ([, text]) => {
    expect(parseFields(text).map((fields) => fields.map((field) => field.trim()))).toEqual([
      ["to", "from"],
      ["a", "b"],
    ]);
  });

  test("reads quoted separators, line breaks and doubled quotes, and empty fields", () => {
    expect(parseFields('name,note,\n"Doe, Jane","a ""b""\r\nc;\td",\n,"",x')).toEqual([
      ["name", "note", ""],
      ["Doe, Jane", 'a "b"\r\nc;\td', ""],
      ["", "", "x"],
    ]);
    expect(parseFields('a,b\n5" disk,"x"y')).toEqual([
      ["a", "b"],
      ['5" disk', "xy"],
    ]);
  });

  test("takes the separator with the most occurrences in the first line, not counting quoted ones", () => {
    expect(parseCsv('"a,b,c";d\n1,5;2,5').separator).toBe(";");
    expect(parseCsv("to\n1;2;3").separator).toBe(",");
    expect(parseCsv('"a\nb,c"\td').separator).toBe("\t");
  });

  test("numbers rows by the line on which they start", () => {
    const { rows } = parseCsv('a,b\r\n\r\n"1\r\n2",x\n"3\r4\n5",y\nz');
    expect(rows.map(({ line }) => line)).toEqual([1, 3, 5, 8]);
  });

  test("names the line of a quote that is not closed, and keeps the rows before it", () => {
    expect(parseCsv('a,b\n1,2\n3,"4\n5,6\n')).toEqual({
      separator: ",",
      rows: [
        { line: 1, fields: ["a", "b"] },
        { line: 2, fields: ["1", "2"] },
      ],
      openQuoteLine: 3,
    });
    expect(parseCsv('a\n"""')).toMatchObject({ openQuoteLine: 2 });
  });

  test("returns no rows for an empty text", () => {
    for (const text of ["", "\ufeff", "\n", " \r\n,,\n"]) expect(parseFields(text)).toEqual([]);
  });

  // Quadratic time would exceed the timeout.
  test("reads 100,000 lines, and a field of 1 MB", () => {
    const line = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8,"a ""b"""\n';
    expect(parseFields(`to,from\n${line.repeat(100_000)}`)).toHaveLength(100_001);
    expect(parseFields(`a\n"${'""x\n'.repeat(250_000)}"`)).toHaveLength(2);
  });
});

describe("formatCsv()", () => {
  test("quotes what has to be quoted, and ends lines with CRLF", () => {
    const fields = ["a", "", "b,c", 'd "e"', "f\ng", " h", "i;j"];
    expect(formatCsv([fields, ["k"]], ",")).toBe('a,,"b,c","d ""e""","f\ng"," h","i;j"\r\nk\r\n');
    expect(formatCsv([["a", "b"]], ";")).toBe("a;b\r\n");
  });

  test.for(["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "--5", "+", "-", "=5", "-0xzz"])(
    "adds an apostrophe to %j, so that no spreadsheet runs it",
    (text) => {
      expect(parseFields(formatCsv([["a"], [text]], ","))[1]).toEqual([`'${text}`]);
    },
  );

  test.for(["-5", "+5", "-1.5", "-1,5", "-0x1F", "0x1F", "8520", `${2n ** 256n - 1n}`, "a=1", "a@b", "true"])(
    "keeps %j as it is",
    (text) => {
      expect(parseFields(formatCsv([["a"], [text]], ","))[1]).toEqual([text]);
    },
  );
});
