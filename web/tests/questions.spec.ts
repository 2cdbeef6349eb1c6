// Asking: filters, time, dimensions, pictures, links. The tasks of an operator.
import { expect, expectAccessible, REAL, test } from "./weir.ts";

test("a question is text in the address, and comes back from it", async ({ page, weir }) => {
  await weir.open("#/explore");
  const filter = page.getByLabel("filter", { exact: true });
  await filter.fill("proto tcp");
  await filter.press("Enter");
  await expect(page).toHaveURL(/#\/explore\?filter=proto\+tcp$/);
  await page.getByLabel("add a dimension").selectOption("dst_port");
  await expect(page).toHaveURL(/filter=proto\+tcp&by=src_addr,dst_port$/);
  await page.getByLabel("measure").selectOption("packets");
  await page.getByRole("button", { name: "Lines" }).click();
  await expect(page).toHaveURL(/filter=proto\+tcp&by=src_addr,dst_port&measure=packets&view=lines$/);
  await page.reload();
  await expect(filter).toHaveValue("proto tcp");
  await expect(page.getByRole("button", { name: "Lines" })).toHaveAttribute("aria-pressed", "true");
  await expect(page.getByRole("columnheader", { name: "dport" })).toBeVisible();
  await page.goBack();
  await expect(page).toHaveURL(/measure=packets$/);
});

test("what is typed is not lost: by loading again, by a time, by other pages", async ({ page, weir }) => {
  await weir.open("#/explore");
  const filter = page.getByLabel("filter", { exact: true });
  await filter.fill("dst port 44");
  await page.reload();
  await expect(filter).toHaveValue("dst port 44");
  await page.keyboard.press("Escape");
  await page.getByRole("link", { name: "Archive" }).click();
  await page.getByRole("link", { name: "Explore" }).click();
  await expect(filter).toHaveValue("dst port 44");
  await page.getByLabel("time", { exact: true }).selectOption("-6h");
  await expect(page).toHaveURL(/filter=dst\+port\+44&from=-6h$/);
  await weir.open("#/sql");
  await page.getByLabel("statement", { exact: true }).fill("SELECT 1 -- not asked yet");
  await page.reload();
  await expect(page.getByLabel("statement", { exact: true })).toHaveValue("SELECT 1 -- not asked yet");
});

test("words of a filter are completed by keys", async ({ page, weir }) => {
  await weir.open("#/flows");
  const filter = page.getByLabel("filter", { exact: true });
  await filter.pressSequentially("dst po");
  await expect(page.getByRole("option", { name: /^port/ }).first()).toBeVisible();
  await expectAccessible(page);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await expect(filter).toHaveValue(/^dst port /);
  await page.keyboard.type("443");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/filter=dst\+port\+443/);
});

test("a mistake in a filter is shown where it is, with a hint", async ({ page, weir }) => {
  await weir.open("#/explore");
  const filter = page.getByLabel("filter", { exact: true });
  await filter.fill("proto tcp and src prot 80");
  const said = page.locator(".said");
  await expect(said).toContainText("unknown word 'prot'");
  await expect(said).toContainText("hint: did you mean 'port'?");
  await expect(said.locator("mark")).toHaveText("prot");
  await expectAccessible(page);
  await filter.press("Enter");
  const alert = page.getByRole("alert").first();
  await expect(alert).toContainText("unknown word 'prot'");
  await expect(alert.locator("mark")).toHaveText("prot");
});

test("a value is excluded by a click, and back", async ({ page, weir }) => {
  await weir.open("#/explore?by=dst_port&view=table&from=-7d");
  const rows = page.locator("section[aria-label=table] tbody tr");
  const first = (await rows.first().locator("td").first().locator(".cell").innerText()).split(/\s/)[0] ?? "";
  await rows.first().hover();
  await rows.first().getByRole("button", { name: `without dst port ${first}`, exact: true }).click();
  await expect(page).toHaveURL(new RegExp(`filter=not\\+dst\\+port\\+${first}`));
  await expect(page.getByLabel("filter", { exact: true })).toHaveValue(`not dst port ${first}`);
  await expect(rows.first()).toBeVisible();
  await expect(rows.first().locator("td").first()).not.toContainText(new RegExp(`^${first}$`));
  await page.goBack();
  await expect(rows.first().locator("td").first()).toContainText(first);
});

test("dragging over the time line zooms, and the keys zoom out", async ({ page, weir }) => {
  await weir.open("#/explore?by=");
  const plot = page.locator("section[aria-label=picture] .u-over");
  await expect(plot).toBeVisible();
  const box = await plot.boundingBox();
  if (!box) throw new Error("the picture has no place");
  await page.mouse.move(box.x + box.width * 0.4, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 6 });
  await page.mouse.up();
  await expect(page).toHaveURL(/from=\d{4}-\d\d-\d\dT[\d:.]+Z&until=\d{4}-\d\d-\d\dT[\d:.]+Z/);
  const span = () => {
    const [, from = "", until = ""] = /from=([^&]+)&until=([^&]+)/.exec(page.url()) ?? [];
    return Date.parse(until) - Date.parse(from);
  };
  const zoomed = span();
  expect(zoomed).toBeGreaterThan(8 * 60_000);
  expect(zoomed).toBeLessThan(16 * 60_000);
  await page.locator("h1").click();
  await page.keyboard.press("-");
  await expect.poll(span).toBeGreaterThan(zoomed * 1.9);
});

test("an own time is written in the zone of the reader", async ({ page, weir }) => {
  await weir.open("#/explore");
  await page.getByLabel("time", { exact: true }).selectOption("own");
  await page.getByLabel("from", { exact: true }).fill("2026-11-24 14:00");
  await page.getByLabel("until").fill("2026-11-24 13:00");
  await expect(page.getByRole("button", { name: "Take" })).toBeDisabled();
  await page.getByLabel("until").fill("2026-11-24 15:30");
  await expect(page.getByText("1 h 30 min, Europe/Berlin, UTC+01:00")).toBeVisible();
  await page.getByRole("button", { name: "Take" }).click();
  await expect(page).toHaveURL(/from=2026-11-24T13:00:00Z&until=2026-11-24T14:30:00Z$/);
});

test("parts of a link that are not understood are named", async ({ page, weir }) => {
  await weir.open("#/explore?view=pie&colour=red");
  await expect(page.getByText("view=pie: must be one of stacked")).toBeVisible();
});

test("a large question waits for a yes, and one that runs is cancelled", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs answers that take long");
  await weir.open("#/explore?filter=net+10.0.0.0/8");
  await expect(page.getByText("reads up to 4.09 G flows")).toBeVisible();
  expect(weir.requests.some((each) => each.startsWith("GET group"))).toBe(false);
  await page.getByRole("button", { name: "Ask all the same" }).click();
  await expect.poll(() => weir.requests.some((each) => each.startsWith("GET group"))).toBe(true);
  const filter = page.getByLabel("filter", { exact: true });
  await filter.fill("port 99");
  await filter.press("Enter");
  await page.locator(".state").getByRole("button", { name: "Cancel" }).click();
  await expect(page.getByText("cancelled; what is shown is the answer before")).toBeVisible();
});

test("a long list of flows is scrolled, ordered, and explained", async ({ page, weir }) => {
  await weir.open("#/flows?filter=proto+tcp&from=-7d");
  const list = page.getByRole("table", { name: "flows" });
  await expect(list.locator(".line").first()).toBeVisible();
  await expect(page.getByText(/flows match/)).toBeVisible();
  const count = Number(await list.getAttribute("aria-rowcount"));
  expect(count).toBeGreaterThan(300);
  // Only what is seen is in the page.
  expect(await list.locator(".line").count()).toBeLessThan(80);
  await list.evaluate((box) => (box.scrollTop = box.scrollHeight));
  await expect(list.locator(`[aria-rowindex="${count}"]`)).toContainText("TCP");
  await list.getByRole("button", { name: "bytes", exact: true }).click();
  await expect(page).toHaveURL(/order=-bytes/);
  await expect(list.getByRole("columnheader", { name: "bytes" })).toHaveAttribute("aria-sort", "descending");
  await page.locator("h1").click();
  await page.keyboard.press("j");
  const detail = page.getByRole("complementary", { name: "the flow" });
  await expect(detail).toContainText("proto tcp");
  await expect(detail).toContainText("proto is TCP");
  await expectAccessible(page);
  await page.getByText("Columns", { exact: true }).click();
  await page.getByLabel("find a column").fill("in_if");
  await page.getByRole("checkbox", { name: /in_if/ }).first().check();
  await expect(page).toHaveURL(/columns=[\w,]*in_if/);
});

test("flows are downloaded as CSV", async ({ page, weir }) => {
  await weir.open("#/flows?from=-7d");
  await expect(page.locator("[role=table] .line").first()).toBeVisible();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "CSV" }).click()]);
  const stream = await download.createReadStream();
  let text = "";
  for await (const part of stream) text += String(part);
  const [head = "", first = ""] = text.split("\r\n");
  expect(head).toBe("start,protocol,src_addr,src_port,dst_addr,dst_port,tcp_flags,packets,bytes,exporter");
  expect(first).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z,(\d+|[A-Z]+),/);
});

test("a mistake in SQL is shown under the text", async ({ page, weir }) => {
  await weir.open("#/sql");
  const statement = page.getByLabel("statement", { exact: true });
  await statement.fill("SELECT 'ü' FORM flows");
  await statement.press("Control+Enter");
  const alert = page.getByRole("alert").first();
  await expect(alert).toBeVisible();
  await expectAccessible(page);
  if (!REAL) {
    await expect(alert.locator("mark")).toHaveText("FORM");
    await expect(alert).toContainText("hint: did you mean 'FROM'?");
  }
  await statement.fill("SELECT src_addr, sum(bytes) AS bytes FROM flows GROUP BY src_addr LIMIT 3");
  await statement.press("Control+Enter");
  await expect(page.locator("section[aria-label=answer] tbody tr").first()).toBeVisible();
  await expect(page.getByRole("alert")).toHaveCount(0);
  await expect(page).toHaveURL(/#\/sql\?q=SELECT\+src_addr,/);
});

test("from host to host, with the way back", async ({ page, weir }) => {
  await weir.open("#/explore?by=src_addr&view=table&from=-7d");
  const table = page.locator("section[aria-label=table] tbody");
  await table.getByRole("link").first().click();
  await expect(page).toHaveURL(/#\/host\//);
  const first = await page.locator("h1 .mono").innerText();
  await page.locator("section", { has: page.getByRole("heading", { name: "Sent most to" }) }).getByRole("link").first().click();
  await expect(page.locator("h1 .mono")).not.toHaveText(first);
  await page.locator("main").getByRole("link", { name: first, exact: true }).first().click();
  await expect(page.locator("h1 .mono")).toHaveText(first);
  await page.getByRole("link", { name: "Flows" }).last().click();
  await expect(page.getByLabel("filter", { exact: true })).toHaveValue(`ip ${first}`);
});

test("a question is asked once: by a link, by a step back, by Ask", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "counts requests");
  const asked = () => weir.requests.filter((each) => /^GET (group|flows\?.*limit=200)/.test(each)).length;
  const rows = page.locator("section[aria-label=table] tbody tr, [role=table] .line");
  const once = async (what: () => Promise<unknown>, expected: number) => {
    await what();
    await expect.poll(asked).toBe(expected);
    await expect(rows.first()).toBeVisible();
    await page.waitForLoadState("networkidle");
    expect(asked()).toBe(expected);
  };
  await weir.open("#/archive");
  await once(() => page.locator("section[aria-labelledby=days]").getByRole("link").first().click(), 1);
  await once(() => page.getByLabel("measure").selectOption("flows"), 2);
  await once(() => page.goBack(), 3);
  await once(() => page.getByRole("button", { name: "Ask" }).click(), 4);
  await once(() => page.getByRole("main").getByRole("link", { name: "Flows", exact: true }).click(), 5);
  await once(() => page.getByRole("button", { name: "Ask" }).click(), 6);
});

test("a question of now is asked again by itself", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "counts requests");
  await page.clock.install();
  await weir.open("#/explore");
  await expect(page.locator("section[aria-label=table] tbody tr").first()).toBeVisible();
  const asked = () => weir.requests.filter((each) => each.startsWith("GET group")).length;
  const before = asked();
  await page.getByLabel("again").selectOption("10");
  await page.clock.runFor(10_500);
  await expect.poll(asked).toBe(before + 1);
  await page.getByLabel("again").selectOption("0");
  await page.clock.runFor(30_000);
  expect(asked()).toBe(before + 1);
});

test("times are in UTC for who wants it", async ({ page, weir }) => {
  await weir.open("#/flows");
  await expect(page.locator("[role=table] .line").first()).toBeVisible();
  await expect(page.getByRole("button", { name: /^Europe\/Berlin, UTC\+0/ })).toBeVisible();
  await page.keyboard.press("u");
  await expect(page.getByRole("button", { name: "UTC", exact: true })).toBeVisible();
  await expect(page.getByRole("button", { name: /UTC$/ }).last()).toBeVisible();
});

test("a server that is busy says what to do", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs a busy server");
  await weir.open("#/sql?q=SELECT+busy");
  const alert = page.getByRole("alert");
  await expect(alert).toContainText("too many questions");
  await expect(alert).toContainText("hint: wait for one of them");
  await expectAccessible(page);
});
