// The tasks of an operator, against a real process, with numbers checked against `weir sql` on the same archive.
import { execFileSync } from "node:child_process";
import { expect, expectAccessible, type Page, REAL, test } from "./weir.ts";
import { abroadMs, incidentMs, LINK, ROUTER, SCANNED, SCANNER, TALKER, VICTIM } from "./planted.ts";

const PROGRAM = process.env.WEIR_PROGRAM;
const ARCHIVE = process.env.WEIR_PLANTED;
test.skip(REAL === undefined || PROGRAM === undefined || ARCHIVE === undefined, "needs a real process with planted flows, as .ci/pages makes them");
test.use({ timezoneId: "UTC" });

const AT = incidentMs(Number(process.env.WEIR_PLANTED_AT ?? Date.now()));
const text = (ms: number) => new Date(ms).toISOString().slice(0, 19) + "Z";
const typed = (ms: number) => new Date(ms).toISOString().slice(0, 16).replace("T", " ");
const [FROM, UNTIL] = [AT - 10 * 60_000, AT + 10 * 60_000];

/** The rows of a statement, by `weir sql` and not by the service. */
function sql(statement: string): Record<string, string>[] {
  const out = execFileSync(PROGRAM ?? "", ["sql", "-R", ARCHIVE ?? "", "--format", "csv", statement], { encoding: "utf8" });
  const [head = "", ...rows] = out.trim().split(/\r?\n/);
  const names = head.split(",");
  return rows.map((row) => Object.fromEntries(row.split(",").map((value, at) => [names[at] ?? "", value])));
}

/** A name that no earlier try of the test has saved. */
const own = (name: string) => `${name}${test.info().retry || ""}`;

const active = (from: number, until: number) => `"end" >= '${text(from)}' AND start <= '${text(until)}'`;

/** Every digit of a cell: it is in the tooltip where the text is rounded. */
async function exactOf(row: ReturnType<Page["locator"]>, column: string): Promise<number> {
  const heads = await row.locator("xpath=ancestor::table").locator("thead th").allInnerTexts();
  const at = heads.findIndex((head) => head.trim().toLowerCase().startsWith(column));
  const cell = row.locator("td").nth(at).locator(".cell");
  const words = (await cell.getAttribute("title")) ?? (await cell.innerText());
  return Number(words.replace(/[^\d]/g, ""));
}

test("the top talker of an incident", async ({ page, weir }) => {
  await weir.open("#/explore");
  await page.getByLabel("time", { exact: true }).selectOption("own");
  await page.getByLabel("from", { exact: true }).fill(typed(FROM));
  await page.getByLabel("until").fill(typed(UNTIL));
  await page.getByRole("button", { name: "Take" }).click();
  const first = page.locator("section[aria-label=table] tbody tr").first();
  await expect(first).toContainText(TALKER);
  const [expected] = sql(`SELECT src_addr, sum(bytes) AS bytes, sum(packets) AS packets, count(*) AS flows FROM flows WHERE ${active(FROM, UNTIL)} GROUP BY src_addr ORDER BY bytes DESC LIMIT 1`);
  expect(expected?.src_addr).toBe(TALKER);
  expect(await exactOf(first, "bytes")).toBe(Number(expected?.bytes));
  expect(await exactOf(first, "flows")).toBe(Number(expected?.flows));
  // Whom it sent to, on its page.
  await first.getByRole("link", { name: TALKER }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(`host ${TALKER}`);
  const peers = page.locator("section", { has: page.getByRole("heading", { name: "Sent most to" }) });
  await peers.scrollIntoViewIfNeeded();
  const peer = peers.locator("tbody tr").first();
  await expect(peer).toContainText(VICTIM);
  await expectAccessible(page);
});

test("why a link was full at 14:00", async ({ page, weir }) => {
  await weir.open(`#/exporter/${ROUTER}?from=${text(AT - 3_600_000)}&until=${text(AT + 3_600_000)}`);
  await page.getByRole("heading", { name: "Who sent most" }).scrollIntoViewIfNeeded();
  await page.locator(`main a[href*="#/interface/${ROUTER}/${LINK}?"]`).first().click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(`interface ${ROUTER}/${LINK}`);
  // The peak is at 14:00: drag over it.
  const plot = page.locator("section[aria-labelledby=traffic] .u-over");
  await expect(plot).toBeVisible();
  await expect(page.locator("section[aria-labelledby=traffic].old")).toHaveCount(0);
  const box = await plot.boundingBox();
  if (!box) throw new Error("the picture has no place");
  await page.mouse.move(box.x + box.width * 0.46, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.58, box.y + 50, { steps: 6 });
  await page.mouse.up();
  await expect(page).toHaveURL(/from=\d{4}-\d\d-\d\dT[\d:.]+Z&until=/);
  const [, from = "", until = ""] = /from=([^&]+)&until=([^&]+)/.exec(page.url()) ?? [];
  expect(Date.parse(from)).toBeLessThan(AT);
  expect(Date.parse(until)).toBeGreaterThan(AT + 5 * 60_000);
  const senders = page.locator("section", { has: page.getByRole("heading", { name: "Out: who sent" }) });
  await senders.scrollIntoViewIfNeeded();
  await expect(page.locator("section.old")).toHaveCount(0);
  const row = senders.locator("tbody tr").first();
  await expect(row).toContainText(TALKER);
  const [expected] = sql(`SELECT sum(bytes) AS bytes FROM flows WHERE exporter = '${ROUTER}' AND out_if = ${LINK} AND src_addr = '${TALKER}' AND ${active(Date.parse(from), Date.parse(until))}`);
  expect(await exactOf(row, "bytes")).toBe(Number(expected?.bytes));
});

test("who scanned", async ({ page, weir }) => {
  await weir.open(`#/explore?from=${text(AT - 3_600_000)}&until=${text(AT)}`);
  const filter = page.getByLabel("filter", { exact: true });
  await filter.fill("flags =S and packets < 4");
  await filter.press("Enter");
  await page.getByLabel("measure").selectOption("flows");
  const first = page.locator("section[aria-label=table] tbody tr").first();
  await expect(first).toContainText(SCANNER);
  expect(await exactOf(first, "flows")).toBe(SCANNED);
  // How many hosts and ports it tried, in the SQL of the page, and by the program.
  const statement = `SELECT count(DISTINCT dst_addr) AS hosts, count(DISTINCT dst_port) AS ports FROM flows WHERE src_addr = '${SCANNER}'`;
  await weir.open("#/sql");
  await page.getByLabel("statement", { exact: true }).fill(statement);
  await page.keyboard.press("Control+Enter");
  const row = page.locator("section[aria-label=answer] tbody tr").first();
  const [expected] = sql(statement);
  expect(expected).toEqual({ hosts: "250", ports: String(SCANNED) });
  await expect(row.locator("td").nth(0)).toHaveText("250");
  await expect(row.locator("td").nth(1)).toHaveText(String(SCANNED));
});

test("a watch is tested on the past, armed and removed", async ({ page, weir }) => {
  await weir.open("#/watches");
  await page.getByLabel("name of a new watch").fill(own("many-services"));
  await page.getByRole("button", { name: "New" }).click();
  const file = page.getByLabel("file of the watch");
  await expect(file).toHaveValue(/TUMBLE/);
  const watch = (least: number) => `title = "A host tries many services"
severity = "warning"
key = ["src_addr"]
repeat_after = "1h"
query = """
SELECT src_addr, count(DISTINCT dst_port) AS ports
FROM TUMBLE(flows, received, INTERVAL '1' MINUTE)
WHERE packets < 4 AND protocol = 6
GROUP BY src_addr
HAVING count(DISTINCT dst_port) >= ${least}
"""
`;
  await file.fill(watch(100_000));
  await page.getByLabel("days").selectOption("3");
  await page.getByRole("button", { name: "Backtest" }).click();
  await expect(page.getByText("It would not have reported")).toBeVisible({ timeout: 60_000 });
  await file.fill(watch(300));
  await page.getByRole("button", { name: "Backtest" }).click();
  const found = page.locator("section[aria-label=backtest]");
  await expect(found.locator(".report", { hasText: SCANNER }).first()).toBeVisible({ timeout: 60_000 });
  await expect(found.locator(".firings")).toContainText(SCANNER);
  await expectAccessible(page);
  await page.getByRole("button", { name: "Save and arm" }).click();
  await expect(page.getByText("Saved; the watch runs with it")).toBeVisible();
  const row = page.locator("section[aria-label=watches] tr", { hasText: own("many-services") });
  await expect(row).toBeVisible();
  // Another version against the one that is armed.
  await file.fill(watch(100_000));
  await page.getByRole("button", { name: "Compare with the saved" }).click();
  await expect(page.getByRole("status").filter({ hasText: "not any more" })).toContainText(/[1-9]\d* not any more/);
  page.on("dialog", (dialog) => void dialog.accept());
  await page.getByRole("button", { name: "Remove" }).click();
  await expect(row).toHaveCount(0);
});

test("which exporter loses", async ({ page, weir }) => {
  await weir.open("#/exporters?from=-3650d");
  const first = page.locator("section[aria-label=exporters] tbody tr").first();
  await expect(first.locator(".badge.incomplete")).toBeVisible();
  const name = (await first.locator(".name .mono").innerText()).trim();
  const lost = Number((await first.locator("td").nth(3).innerText()).replace(/[^\d]/g, ""));
  const [expected] = sql(`SELECT exporter, sum(records_lost) AS lost FROM exporter_books WHERE records_lost > 0 GROUP BY exporter ORDER BY lost DESC LIMIT 1`);
  expect(expected).toEqual({ exporter: name, lost: String(lost) });
  expect(lost).toBeGreaterThan(0);
  await first.locator(".name").click();
  await expect(page.locator(".advice").first()).toContainText("hint:");
});

test("a question is kept on a dashboard, which is a file", async ({ page, weir }) => {
  await weir.open(`#/explore?filter=router+ip+${ROUTER}&from=${text(FROM)}&until=${text(UNTIL)}&by=dst_addr&view=table`);
  await page.getByText("Keep", { exact: true }).click();
  await page.getByLabel("on the dashboard").selectOption("");
  await page.getByLabel("its name").fill(own("incident"));
  await page.getByLabel("title of the panel").fill("To whom");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("status").getByRole("link", { name: own("incident") }).click();
  await expect(page.getByRole("heading", { level: 1 })).toContainText(own("incident"));
  const first = page.locator("section[aria-label='To whom'] tbody tr").first();
  await expect(first).toContainText(VICTIM);
  const [expected] = sql(`SELECT sum(bytes) AS bytes FROM flows WHERE exporter = '${ROUTER}' AND dst_addr = '${VICTIM}' AND ${active(FROM, UNTIL)}`);
  expect(await exactOf(first, "bytes")).toBe(Number(expected?.bytes));
  await page.getByRole("button", { name: "Edit" }).click();
  const file = page.getByLabel("file of the dashboard");
  await file.fill((await file.inputValue()).replace("To whom", "Whither"));
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Saved.")).toBeVisible();
  await expect(page.getByRole("heading", { name: "Whither" })).toBeVisible();
  await file.fill(`${await file.inputValue()}\ncolour = "red"\n`);
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("alert").locator("mark")).toHaveText("colour");
  page.on("dialog", (dialog) => void dialog.accept());
  await page.getByRole("button", { name: "Remove" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Dashboards");
});

test("where traffic came from, on a map", async ({ page, weir }) => {
  const at = abroadMs(Number(process.env.WEIR_PLANTED_AT ?? Date.now()));
  const [from, until] = [at - 60_000, at + 60_000];
  await weir.open(`#/explore?filter=router+ip+${ROUTER}&from=${text(from)}&until=${text(until)}&by=src_country&view=map`);
  const picture = page.locator("section[aria-label=picture]");
  await expect(picture.getByRole("button", { name: /^United States, 6\.00 MB, 80 %/ })).toBeVisible();
  await expect(picture.getByText(/^Without a country · 500 kB, 6\.67 %/)).toBeVisible();
  const rows = page.locator("section[aria-label=table] tbody tr");
  const expected = sql(`SELECT src_country, sum(bytes) AS bytes FROM flows WHERE exporter = '${ROUTER}' AND ${active(from, until)} GROUP BY src_country ORDER BY bytes DESC`);
  await expect(rows).toHaveCount(expected.length);
  for (const [row, each] of expected.entries()) {
    await expect(rows.nth(row)).toContainText(each.src_country || "–");
    expect(await exactOf(rows.nth(row), "bytes")).toBe(Number(each.bytes));
  }
  await expectAccessible(page);
  // Of either end, a flow within a country counts once.
  await page.getByRole("button", { name: "Either end" }).click();
  const germany = picture.getByRole("button", { name: /^Germany, 1\.50 MB, 20 %/ });
  await expect(germany).toBeVisible();
  await expect(picture.getByRole("button", { name: /^United States, 6\.00 MB, 80 %/ })).toBeVisible();
  await germany.focus();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\+and\+country\+DE&/);
  const [both] = sql(`SELECT sum(bytes) AS bytes FROM flows WHERE exporter = '${ROUTER}' AND 'DE' IN (src_country, dst_country) AND ${active(from, until)}`);
  expect(await exactOf(rows.filter({ hasText: "Germany" }), "bytes")).toBe(Number(both?.bytes));
});
