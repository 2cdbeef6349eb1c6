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

test("a list of flows says that it is not scaled", async ({ page, weir }) => {
  await weir.open("#/explore?filter=bytes+%3E+100&from=-7d&scaled=yes");
  await page.locator(".controls a.button", { hasText: "Flows" }).click();
  await expect(page).toHaveURL(/#\/flows\?.*scaled=yes/);
  await expect(page.getByText("The filter means measured ones here")).toBeVisible();
  await page.locator("summary", { hasText: "Download" }).click();
  await expect(page.getByText("multiply by sampling_interval")).toBeVisible();
});

test("counts are scaled by sampling on a wish, which the link and the pages keep", async ({ page, weir }) => {
  await weir.open("#/explore?from=-7d");
  await expect(page.locator("section[aria-label=table] tbody tr").first()).toBeVisible();
  await expect(page.locator(".tag.sampling", { hasText: "scaled by sampling" })).toHaveCount(0);
  await page.getByLabel("scaled by sampling").check();
  await expect(page).toHaveURL(/scaled=yes/);
  for (const place of [".state", "section[aria-label=picture]"]) await expect(page.locator(place).locator(".tag.sampling")).toHaveText("scaled by sampling");
  expect(weir.requests.some((each) => each.startsWith("GET group") && each.includes("scaled=true"))).toBe(REAL === undefined);
  await expectAccessible(page);
  await page.reload();
  await expect(page.getByLabel("scaled by sampling")).toBeChecked();
  await expect(page.locator("section[aria-label=table] tbody a[href*='scaled=yes']").first()).toBeVisible();
  await page.getByLabel("scaled by sampling").uncheck();
  await expect(page).not.toHaveURL(/scaled/);
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

test("a day that does not exist is refused, and not another one asked for", async ({ page, weir }) => {
  await weir.open("#/explore?from=2026-02-31&until=2026-11-28");
  await expect(page.getByText("not a time")).toBeVisible();
  await expect(page.getByRole("alert").first()).toContainText("'2026-02-31' is no time");
  if (!REAL) expect(weir.requests.filter((each) => each.includes("2026-03-0"))).toEqual([]);
});

test("times in words are those of the reader", async ({ page, weir }) => {
  await weir.open("#/explore?from=yesterday&until=now");
  await expect(page.getByRole("button", { name: /^\d{4}-\d\d-\d\d 00:00:00 – / })).toBeVisible();
  await expect(page.getByText("not a time")).toHaveCount(0);
  await expect(page.getByRole("alert")).toHaveCount(0);
  // Midnight of Berlin.
  if (!REAL) await expect.poll(() => weir.requests.some((each) => /^GET group.*from=[\d-]+T2[23]:00:00Z/.test(each))).toBe(true);
});

test("a question that failed does not say that no flows match", async ({ page, weir }) => {
  for (const hash of ["#/explore?filter=proto+tpc", "#/explore?by=nosuch", "#/explore?by=src_addr,nosuch&view=sankey", "#/explore?filter=proto+tpc&view=map"]) {
    await weir.open(hash);
    await expect(page.getByRole("alert").first()).toBeVisible();
    await expect(page.locator("section[aria-label=picture]").getByText("Not answered")).toBeVisible();
    await expect(page.getByText(/no flows? (match|pass)/i)).toHaveCount(0);
  }
});

test("times of flows are shown whole", async ({ page, weir }) => {
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 844 });
    await weir.open("#/flows?from=-7d");
    const cell = page.locator("[role=table] .line [role=cell]").first();
    await expect(cell).toHaveText(/^\s*\d{4}-\d\d-\d\d [\d:]+\.\d{3}\s*$/);
    const over = await cell.evaluate((each) => each.scrollWidth - each.clientWidth);
    expect(over, `at ${width}`).toBeLessThanOrEqual(0);
  }
});

test("a share is in sight next to a long address", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "knows the flows");
  await page.route("**/api/v1/rank?*", async (route) => {
    const text = await (await route.fetch()).text();
    await route.fulfill({ contentType: "application/json", body: text.replaceAll("2001:db8:0:5::443", "2001:db8:1234:5678:9abc:def0:1234:5678") });
  });
  await weir.open("#/interface/10.0.0.1/3");
  await expect(page.locator(".columns section").first()).toBeVisible();
  // What nobody scrolls to is not asked.
  for (const section of await page.locator(".columns section").all()) await section.scrollIntoViewIfNeeded();
  const tables = page.locator(".columns section .scroll", { hasText: "2001:db8:1234" });
  await expect(tables.first()).toBeVisible();
  for (const table of await tables.all()) expect(await table.evaluate((each) => each.scrollWidth - each.clientWidth)).toBeLessThanOrEqual(0);
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

test("flows are downloaded as CSV, Parquet and nfcapd", async ({ page, weir }) => {
  await weir.open("#/flows?from=-7d");
  await expect(page.locator("[role=table] .line").first()).toBeVisible();
  const get = async (name: string) => {
    await page.getByText("Download", { exact: true }).click();
    await page.getByLabel("at most").selectOption("10000");
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: new RegExp(`^${name}`) }).click()]);
    const parts: Buffer[] = [];
    for await (const part of await download.createReadStream()) parts.push(part as Buffer);
    return { name: download.suggestedFilename(), octets: Buffer.concat(parts) };
  };
  const csv = await get("CSV");
  expect(csv.name).toMatch(/\.csv$/);
  const [head = "", first = ""] = csv.octets.toString().split(/\r?\n/);
  expect(head).toBe("start,protocol,src_addr,src_port,dst_addr,dst_port,tcp_flags,packets,bytes,exporter");
  expect(first).toMatch(/^\d{4}-\d\d-\d\d[T ][\d:.]+(Z|\+00:00)?,(\d+|[A-Z]+),/);
  const parquet = await get("Parquet");
  const nfcapd = await get("nfcapd");
  if (!REAL) return;
  expect(parquet.octets.subarray(0, 4).toString()).toBe("PAR1");
  // The magic number of files of nfdump, 0xA50C.
  expect(nfcapd.octets.readUInt16LE(0)).toBe(0xa50c);
});

test("a download that is too large says what to do", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs a refusal");
  await weir.open("#/flows?filter=port+413");
  await page.getByText("Download", { exact: true }).click();
  await page.getByRole("button", { name: /^CSV/ }).click();
  await expect(page.getByRole("alert")).toContainText("hint: take a shorter time");
});

test("both directions of a conversation are one row, and their flows are found", async ({ page, weir }) => {
  await weir.open("#/flows?from=-7d");
  await page.getByLabel("both directions in one row").check();
  await expect(page).toHaveURL(/pairs=yes/);
  const list = page.getByRole("table", { name: "flows" });
  await expect(list.getByRole("columnheader", { name: /^bytes rev/i })).toBeVisible();
  await list.getByRole("button", { name: /^bytes/i }).first().click();
  await expect(page).toHaveURL(/order=-bytes/);
  await page.locator("h1").click();
  await page.keyboard.press("j");
  const detail = page.getByRole("complementary", { name: "the flow" });
  await expectAccessible(page);
  await detail.getByRole("link", { name: "Its flows, one by one" }).click();
  await expect(page.getByLabel("filter", { exact: true })).toHaveValue(/^proto \w+ and \(\(src ip .* or \(src ip .*\)\)$/);
  await expect(list.locator(".line").first()).toBeVisible();
});

test("who sees a part of the flows is offered what answers about them", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs a role");
  await page.route("**/api/v1/info", async (route) => {
    const answer = (await (await route.fetch()).json()) as object;
    await route.fulfill({ json: { ...answer, archive: null, collecting: [], user: { name: "ann", role: "viewer", sees_all: false } } });
  });
  const refused = { type: "urn:weir:forbidden", title: "that is not allowed", status: 403, detail: "your role sees a part of the flows" };
  await page.route("**/api/v1/estimate?*", (route) => route.fulfill({ status: 403, contentType: "application/problem+json", json: refused }));
  await weir.open("#/explore");
  await expect(page.locator("section[aria-label=table] tbody tr").first()).toBeVisible();
  await expect(page.getByRole("alert")).toHaveCount(0);
  for (const name of ["Exporters", "Dashboards", "SQL"]) await expect(page.getByRole("link", { name, exact: true })).toHaveCount(0);
  await expect(page.locator("summary", { hasText: "Keep" })).toHaveCount(0);
  expect(weir.requests.filter((each) => /live|reports|completeness/.test(each))).toEqual([]);
  // what it costs is not known, so a sketch comes first
  expect(weir.requests.filter((each) => each.includes("sketch"))).toHaveLength(1);
  await weir.open("#/interface/10.0.0.1/3");
  await page.getByRole("button", { name: "First and last seen?" }).click();
  await expect(page.getByText(/^first seen [\d-]+ [\d:]+, last seen /)).toBeVisible();
  await weir.open("#/exporters");
  await expect(page.getByText("this page is about all of them")).toBeVisible();
  await weir.open("#/sql");
  await expect(page.getByText("this page takes analyst")).toBeVisible();
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

test("a mistake in SQL is shown while it is typed, and nothing is run", async ({ page, weir }) => {
  await weir.open("#/sql");
  const statement = page.getByLabel("statement", { exact: true });
  await statement.fill("SELECT src_addr\nFORM flows");
  const said = page.locator(".said");
  await expect(said).toBeVisible();
  await expect(statement).toHaveAttribute("aria-invalid", "true");
  await expect(page.getByRole("alert")).toHaveCount(0);
  await expectAccessible(page);
  if (!REAL) {
    await expect(said.locator("mark")).toHaveText("FORM");
    await expect(said).toContainText("line 2:");
    await expect(said).toContainText("hint: did you mean 'FROM'?");
    expect(weir.requests.filter((each) => each === "POST sql")).toEqual([]);
  }
  // Asked, it is said once.
  await statement.press("Control+Enter");
  await expect(page.getByRole("alert")).toBeVisible();
  await expect(said).toHaveCount(0);
  await expect(statement).toHaveValue("SELECT src_addr\nFORM flows");
  await statement.fill("SELECT src_addr\nFROM flows");
  await expect(statement).toHaveAttribute("aria-invalid", "false");
  await statement.fill("SELECT colum FORM flows");
  await expect(said).toBeVisible();
  await page.reload();
  await expect(statement).toHaveValue("SELECT colum FORM flows");
  await expect(said).toBeVisible();
});

test("columns are completed in SQL", async ({ page, weir }) => {
  await weir.open("#/sql");
  const statement = page.getByLabel("statement", { exact: true });
  await statement.pressSequentially("SELECT src_ad");
  await expect(page.getByRole("option", { name: /^src_addr/ })).toBeVisible();
  await expectAccessible(page);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await expect(statement).toHaveValue("SELECT src_addr");
  await page.keyboard.type(" FROM flows");
  await page.keyboard.press("Escape");
  await page.reload();
  await expect(statement).toHaveValue("SELECT src_addr FROM flows");
});

test("from host to host, with the way back", async ({ page, weir }) => {
  await weir.open("#/explore?by=src_addr&view=table&from=-7d");
  const table = page.locator("section[aria-label=table] tbody");
  await table.getByRole("link").first().click();
  await expect(page).toHaveURL(/#\/host\//);
  const first = await page.locator("h1 .mono").innerText();
  await page.locator("section", { has: page.getByRole("heading", { name: "Sent most to" }) }).locator("tbody").getByRole("link").first().click();
  await expect(page.locator("h1 .mono")).not.toHaveText(first);
  await page.locator("main").getByRole("link", { name: first, exact: true }).first().click();
  await expect(page.locator("h1 .mono")).toHaveText(first);
  await page.getByRole("link", { name: "Flows" }).last().click();
  await expect(page.getByLabel("filter", { exact: true })).toHaveValue(`ip ${first}`);
});

test("from page to page by keys, and back", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "knows the flows");
  await weir.open("#/exporter/10.0.0.1");
  const heading = page.getByRole("heading", { level: 1 });
  const row = page.locator("section[aria-labelledby=interfaces] tbody tr").first();
  await expect(row).toBeVisible();
  await page.keyboard.press("j");
  await expect(row.getByRole("link")).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(heading).toHaveText(/^interface 10\.0\.0\.1\/\d$/);
  await expect(page.getByRole("navigation", { name: "the way here" })).toContainText("10.0.0.1 →");
  const ports = page.locator("section", { has: page.getByRole("heading", { name: "In: ports" }) });
  await ports.scrollIntoViewIfNeeded();
  await ports.getByRole("link", { name: "443", exact: true }).click();
  await expect(heading).toHaveText("service 443");
  await page.keyboard.press("h");
  await page.keyboard.press("h");
  await expect(heading).toHaveText("exporter 10.0.0.1");
  await page.keyboard.press("l");
  await expect(heading).toHaveText(/^interface/);
});

test("a page about nothing says what it wants", async ({ page, weir }) => {
  await weir.open("#/interface/here");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Not an interface: here");
  await expect(page.getByText("an exporter and the index of an interface")).toBeVisible();
  await expectAccessible(page);
});

test("values have names, and what was translated is shown", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs names");
  await weir.open("#/host/192.0.2.11");
  await expect(page.getByText("web shop DE").first()).toBeVisible();
  await expect(page.locator("section[aria-labelledby=nat] tbody tr").first()).toContainText("203.0.113.200");
  await weir.open("#/interface/10.0.0.1/3");
  await expect(page.getByText("xe-0/0/3 · to transit").first()).toBeVisible();
  await expect(page.getByText(/^of 10\.0 Gbit\/s at most in [\d.]+ %, out [\d.]+ %$/)).toBeVisible();
  // Many values, few requests.
  expect(weir.requests.filter((each) => each.includes(" names")).length).toBeLessThan(12);
});

test("addresses are called what they were at the end of the time", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs names");
  const until = Date.now() - 3 * 86_400_000;
  const time = `from=${new Date(until - 3_600_000).toISOString()}&until=${new Date(until).toISOString()}`;
  await weir.open(`#/explore?by=dst_addr&view=table&${time}`);
  const row = page.locator("section[aria-label=table] tbody tr", { hasText: "198.51.100.10" });
  await expect(row).toContainText("old shop DE");
  await weir.open("#/explore?by=dst_addr&view=table");
  await expect(row).toContainText("web shop DE");
  await weir.open(`#/host/198.51.100.10?${time}`);
  await expect(page.locator(".facts")).toContainText("old shop DE");
});

test("names are asked as the server takes it", async ({ page, weir }) => {
  const answered = page.waitForResponse((response) => response.url().includes("/api/v1/names"));
  await weir.open("#/explore");
  const answer = await answered;
  expect(answer.status()).toBe(200);
  expect(Object.keys((await answer.json()) as object)).toEqual(["src_addr"]);
});

test("a server without names is not asked for them again", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "counts requests");
  let asked = 0;
  await page.route("**/api/v1/names*", async (route) => {
    asked += 1;
    await route.fulfill({ status: 405, body: "" });
  });
  const first = page.waitForResponse((response) => response.url().includes("/api/v1/names"));
  await weir.open("#/explore");
  await first;
  await expect(page.locator("section[aria-label=table] tbody tr").first()).toBeVisible();
  // Other addresses, in the same page.
  await page.evaluate(() => (location.hash = "#/explore?by=dst_addr"));
  await expect(page.getByRole("columnheader", { name: "dst addr" })).toBeVisible();
  await page.waitForTimeout(500);
  expect(asked).toBe(1);
});

test("what nobody scrolls to is not asked", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "counts requests");
  await page.setViewportSize({ width: 1280, height: 700 });
  await weir.open("#/host/192.0.2.10");
  await expect(page.locator("section[aria-labelledby=traffic] canvas")).toBeVisible();
  await page.waitForLoadState("networkidle");
  const asked = () => weir.requests.filter((each) => each.startsWith("GET rank")).length;
  const before = asked();
  expect(before).toBeLessThan(8);
  await page.getByRole("heading", { name: "Exporters that saw it" }).scrollIntoViewIfNeeded();
  await expect.poll(asked).toBeGreaterThan(before);
});

test("a sketch is there before the exact picture, and says what it is", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs answers that take long");
  let release = () => undefined as void;
  const held = new Promise<void>((resolve) => (release = resolve));
  await page.route("**/api/v1/timeline?*", async (route) => {
    await held;
    await route.continue();
  });
  await weir.open("#/explore");
  const picture = page.locator("section[aria-label=picture]");
  await expect(picture.getByText("A sketch of 4.17 % of the flows")).toBeVisible();
  await expect(picture.locator("canvas")).toBeVisible();
  await expectAccessible(page);
  release();
  await expect(picture.getByText("sketch")).toHaveCount(0);
  await expect(picture.getByText("Drag over the picture to zoom")).toBeVisible();
});

test("dragging over the heatmap zooms", async ({ page, weir }) => {
  await weir.open("#/explore?by=dst_port&view=heatmap");
  const canvas = page.locator("section[aria-label=picture] canvas");
  await expect(canvas).toBeVisible();
  await expect(page.locator("section[aria-label=picture].old")).toHaveCount(0);
  const box = await canvas.boundingBox();
  if (!box) throw new Error("the picture has no place");
  await page.mouse.move(box.x + box.width * 0.4, box.y + 10);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 10, { steps: 5 });
  await page.mouse.up();
  await expect(page).toHaveURL(/from=\d{4}-\d\d-\d\dT[\d:.]+Z&until=/);
});

test("countries are on a map, and asked for by keys and clicks", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "knows the flows");
  await weir.open("#/explore");
  await page.getByRole("button", { name: "Map", exact: true }).click();
  await expect(page).toHaveURL(/#\/explore\?view=map$/);
  const picture = page.locator("section[aria-label=picture]");
  const map = picture.getByRole("group", { name: "map of bytes by country of the source" });
  await expect(map.getByRole("button", { name: /^Germany, [\d.]+ [kMG]B, [\d.]+ %: Enter adds it to the filter/ })).toBeVisible();
  await expect(picture.getByText(/^Without a country · [\d.]+ [kMG]B, [\d.]+ %/)).toBeVisible();
  await expect(picture.getByText(/^Not on the map · European Union/)).toBeVisible();
  await expect(picture.getByText("99.43 % complete")).toBeVisible();
  // Singapore is too small for its shape.
  await expect(map.getByRole("button", { name: /^Singapore/ }).locator("circle")).toBeVisible();
  const rows = page.locator("section[aria-label=table] tbody tr");
  await expect(rows.filter({ hasText: "DE Germany" })).toBeVisible();
  // By keys: one stop of Tab, from the largest on, and around.
  expect(await map.locator("[tabindex='0']").count()).toBe(1);
  const buttons = map.getByRole("button");
  await buttons.first().focus();
  await page.keyboard.press("ArrowRight");
  await expect(buttons.nth(1)).toBeFocused();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  await expect(buttons.last()).toBeFocused();
  await page.keyboard.press("Home");
  await expect(buttons.first()).toBeFocused();
  const first = ((await buttons.first().getAttribute("aria-label")) ?? "").split(",")[0] ?? "";
  await expect(picture.locator(".shown")).toContainText(first);
  await expectAccessible(page);
  await page.getByRole("button", { name: "Destination" }).click();
  await expect(page).toHaveURL(/#\/explore\?view=map&ends=dst$/);
  await picture.locator("[data-code=DE]").hover();
  await expect(picture.locator(".shown")).toContainText(/^Germany · [\d.]+ [kMG]B, [\d.]+ %/);
  await picture.locator("[data-code=DE]").click();
  await expect(page).toHaveURL(/filter=dst\+country\+DE&/);
  await expect(rows).toHaveCount(1);
  await expect(rows.first()).toContainText("100 %");
  await page.goBack();
  await expect(rows.filter({ hasText: "Singapore" })).toBeVisible();
  await picture.locator("[data-code=SG]").focus();
  await page.keyboard.press("Shift+Enter");
  await expect(page).toHaveURL(/filter=not\+dst\+country\+SG&/);
  await expect(rows.filter({ hasText: "Singapore" })).toHaveCount(0);
  // What is typed goes along.
  await page.getByLabel("filter", { exact: true }).fill("proto tcp");
  await page.getByRole("button", { name: "Either end" }).click();
  await expect(page).toHaveURL(/#\/explore\?filter=proto\+tcp&view=map&ends=either$/);
  await expect(picture.getByText("A flow between two countries counts for both.")).toBeVisible();
  await picture.getByRole("button", { name: /^Germany/ }).focus();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/filter=proto\+tcp\+and\+country\+DE&/);
  // The other pictures are of the dimensions as they were.
  await page.getByRole("button", { name: "Table" }).click();
  await expect(page.getByRole("columnheader", { name: "src addr" })).toBeVisible();
});

test("the ends of a map leave every dimension", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "knows the flows");
  await weir.open("#/explore?by=src_addr,dst_addr,protocol,dst_port&view=map");
  await page.getByRole("button", { name: "Either end" }).click();
  await expect(page).toHaveURL(/\?by=src_addr,dst_addr,protocol,dst_port&view=map&ends=either$/);
  await expect(page.getByRole("button", { name: "Either end" })).toHaveAttribute("aria-pressed", "true");
  await expect(page.getByRole("group", { name: "map of bytes by country of either end" })).toBeVisible();
  // A link that names the ends as dimensions is of these.
  await weir.open("#/explore?by=dst_country&view=map");
  await expect(page.getByRole("group", { name: "map of bytes by country of the destination" })).toBeVisible();
  await weir.open("#/explore?by=src_addr,dst_addr,protocol,dst_port&view=map&ends=either");
  await page.getByRole("button", { name: "Table" }).click();
  for (const name of ["src addr", "dst addr", "proto", "dport"]) await expect(page.getByRole("columnheader", { name, exact: true })).toBeVisible();
});

test("a finger sees a country before it asks for it", async ({ browser, weir }) => {
  test.skip(REAL !== undefined, "knows the flows");
  const context = await browser.newContext({ hasTouch: true, viewport: { width: 390, height: 844 } });
  const page = await context.newPage();
  await page.goto(`${weir.address}#/explore?view=map`);
  const picture = page.locator("section[aria-label=picture]");
  await picture.locator("[data-code=US]").tap();
  await expect(picture.locator(".shown")).toContainText(/^United States · /);
  await expect(page).toHaveURL(/explore\?view=map$/);
  await expectAccessible(page);
  await picture.getByRole("button", { name: "Without src country US" }).tap();
  await expect(page).toHaveURL(/filter=not\+src\+country\+US&view=map/);
  await context.close();
});

test("a map of flows without countries says how they get some", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "knows the flows");
  await weir.open("#/explore?filter=src+net+192.0.2.0/24&view=map");
  const picture = page.locator("section[aria-label=picture]");
  await expect(picture.getByText("These flows have no countries")).toBeVisible();
  await expect(picture.getByText("--geo-mmdb FILE")).toBeVisible();
  await expect(picture.locator("svg[role=group]")).toHaveCount(0);
  await expectAccessible(page);
});

test("shapes of countries are loaded for a map only", async ({ page, weir }) => {
  const loaded: string[] = [];
  page.on("response", (response) => loaded.push(response.url()));
  await weir.open("#/explore");
  await expect(page.locator("section[aria-label=picture] canvas")).toBeVisible();
  expect(loaded.filter((each) => each.includes("WorldMap"))).toEqual([]);
  if (REAL) return;
  await page.getByRole("button", { name: "Map", exact: true }).click();
  await expect(page.locator("section[aria-label=picture] svg[role=group]")).toBeVisible();
  expect(loaded.filter((each) => /WorldMap-[\w-]+\.js$/.test(each))).toHaveLength(1);
});

test("a question is kept on a dashboard", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "changes a dashboard of the fixture");
  await weir.open("#/explore?by=dst_port&view=lines");
  await page.getByText("Keep", { exact: true }).click();
  await expect(page.getByLabel("title of the panel")).toHaveValue("bytes by dport");
  await expectAccessible(page);
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("status").getByRole("link", { name: "Border" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Dashboards Border");
  await expect(page.locator(".panels .one")).toHaveCount(4);
  await expect(page.locator("section[aria-label='bytes by dport'] canvas")).toBeVisible();
  await expectAccessible(page);
  await page.getByLabel("one time for all").check();
  await expect(page).toHaveURL(/#\/dashboards\/border\?from=-1h$/);
  // What is typed stays over a reload.
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByLabel("file of the dashboard").fill('title = "Border"\ncolour = "red"\n');
  await page.reload();
  await expect(page.getByLabel("file of the dashboard")).toHaveValue(/colour/);
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("alert").locator("mark")).toHaveText("colour");
  await expectAccessible(page);
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
