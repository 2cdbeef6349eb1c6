// What runs and what was found: exporters, watches, reports.
import { expect, expectAccessible, REAL, test } from "./weir.ts";

test("an exporter that loses is found, with what to do", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs an exporter that loses");
  await weir.open("#/exporters");
  await expect(page.getByText("1 of 3 exporters loses records in this time.")).toBeVisible();
  await page.getByRole("button", { name: "10.0.0.2" }).click();
  await expect(page.getByText("look for full queues and policers")).toBeVisible();
  await expect(page.getByText("114 of 20000 records missing")).toBeVisible();
  await page.getByText("Templates, sequence, clock and decoding").click();
  await expect(page.getByText("7 min 28 s behind ours")).toBeVisible();
  await expect(page.getByRole("region", { name: "Templates" })).toContainText("templates31");
  await expectAccessible(page);
});

test("every rate says how complete it is", async ({ page, weir }) => {
  await weir.open("#/now");
  for (const name of ["traffic", "packets", "flows"]) {
    await expect(page.locator(".stat", { hasText: name }).first().locator(".badge")).toHaveText(/complete|unknown/);
  }
  await expect(page.locator(".stat").first().locator(".value")).toHaveText(/bit\/s$/);
});

test("the picture of now has five minutes from the start, and all that is of them says how complete they are", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs a server that has run for five minutes");
  await weir.open("#/now");
  const picture = page.getByRole("img", { name: /^traffic of the last five minutes/ });
  // The seconds of the stream alone would take as long to be as many.
  await expect.poll(async () => {
    const [, from = "", until = ""] = /from ([\d:]+) to ([\d:]+)$/.exec((await picture.getAttribute("aria-label")) ?? "") ?? [];
    const seconds = (text: string) => text.split(":").reduce((sum, part) => sum * 60 + Number(part), 0);
    return (seconds(until) - seconds(from) + 86_400) % 86_400;
  }).toBeGreaterThan(270);
  const badges = page.locator(".tiles .badge, section[aria-labelledby=last5] header .badge");
  await expect(badges).toHaveCount(4);
  for (const badge of await badges.all()) {
    await expect(badge).toHaveText("complete");
    await expect(badge).toHaveAttribute("title", /^of the last five minutes: /);
  }
  expect(weir.requests.some((each) => each.startsWith("GET completeness?from=-5m"))).toBe(true);
});

test("the picture of now has times on a phone", async ({ page, weir }) => {
  // What is written on pictures is no text of the page.
  await page.addInitScript(() => {
    const texts: string[] = [];
    Object.assign(window, { texts });
    const write = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
      texts.push(text);
      write.call(this, text, ...place);
    };
  });
  await page.setViewportSize({ width: 390, height: 844 });
  await weir.open("#/now");
  await expect(page.locator("section[aria-labelledby=last5] canvas")).toBeVisible();
  const times = () => page.evaluate(() => new Set((window as unknown as { texts: string[] }).texts.filter((text) => /^\d\d:\d\d(:\d\d)?$/.test(text))).size);
  await expect.poll(times).toBeGreaterThanOrEqual(2);
});

test("no exporter was seen in the future", async ({ page, weir }) => {
  await weir.open("#/exporters");
  const seen = page.locator("section[aria-label=exporters] tbody tr td:last-child");
  await expect(seen.first()).toHaveText(/^(in the last \d+ (s|min)|\d+ (s|min|h|d) ago|never)$/);
  for (const text of await seen.allTextContents()) expect(text).not.toMatch(/^in \d/);
  if (!REAL) await expect(seen.last()).toHaveAttribute("title", /^between [\d-]+ [\d:]+ and /);
});

test("memory of watches is nothing that they did not look at", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "knows the watches");
  await weir.open("#/watches");
  const watches = page.locator("section[aria-label=watches] tbody");
  await expect(watches.getByText("3 windows shed")).toBeVisible();
  await expect(watches.getByText("octets kept")).toHaveCount(0);
});

test("a checkbox stands next to its label", async ({ page, weir }) => {
  await weir.open("#/reports");
  const box = await page.getByRole("checkbox", { name: "acknowledged too" }).boundingBox();
  expect(box?.width).toBeLessThan(40);
});

test("a page that nobody sees holds no connection", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "counts connections");
  await page.clock.install();
  await weir.open("#/now");
  await expect(page.getByText(/^live, /)).toBeVisible();
  await expect.poll(weir.lives).toBe(1);
  const setHidden = (isHidden: boolean) =>
    page.evaluate((value) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => value });
      document.dispatchEvent(new Event("visibilitychange"));
    }, isHidden);
  await setHidden(true);
  await page.clock.runFor(6_000);
  await expect.poll(weir.lives).toBe(0);
  await setHidden(false);
  await expect.poll(weir.lives).toBe(1);
});

test("movers are compared with the days before, one question after the other", async ({ page, weir }) => {
  await weir.open("#/now");
  const movers = page.locator("section[aria-labelledby=movers]");
  await expect(movers.locator("tbody tr").first()).toBeVisible();
  await expect(movers).toContainText(/usual is the median|nothing of this hour/);
  if (!REAL) expect(weir.requests.filter((each) => each.startsWith("GET rank?by=src_addr"))).toHaveLength(8);
});

test("a report is read, its command copied, and acknowledged", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs reports");
  await weir.open("#/reports");
  const report = page.locator(".report").first();
  await report.getByRole("button", { expanded: false }).click();
  await expect(report).toContainText("weir query -R flows -s dstport/flows 'src ip 203.0.113.66'");
  await expect(report.getByRole("link", { name: "203.0.113.66" })).toHaveAttribute("href", /#\/host\/203\.0\.113\.66\?from=/);
  await expectAccessible(page);
  await expect(report.getByRole("link", { name: "Its flows" })).toHaveAttribute("href", /#\/flows\?filter=src\+ip\+203\.0\.113\.66&from=/);
  await report.getByRole("button", { name: "Acknowledge" }).click();
  await expect(page.locator("section[aria-label=reports] header")).toContainText("1 of 3 reports");
  await page.getByLabel("acknowledged too").check();
  await expect(page.locator(".report")).toHaveCount(3);
});

test("a watch is edited, checked, tested on the past, and saved", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs watches of its own");
  await weir.open("#/watches/portscan");
  const file = page.getByLabel("file of the watch");
  await expect(file).toHaveValue(/TUMBLE/);
  const text = await file.inputValue();
  await file.fill(text.replace("FROM", "FORM"));
  await expect(page.getByText("not saved", { exact: true })).toBeVisible();
  await expect(page.locator(".said mark")).toHaveText("FORM");
  await expectAccessible(page);
  await page.getByRole("button", { name: "Check" }).click();
  await expect(page.getByRole("alert").locator("mark")).toHaveText("FORM");
  await expect(page.locator(".said")).toHaveCount(0);
  await file.fill(text.replace("100", "50"));
  await page.reload();
  await expect(file).toHaveValue(/fanout_min = 50/);
  await page.getByRole("button", { name: "Check" }).click();
  await expect(page.getByText("The file is right.")).toBeVisible();
  await page.getByLabel("days").selectOption("3");
  await page.getByRole("button", { name: "Backtest" }).click();
  await expect(page.getByText("12 reports in 12 of")).toBeVisible();
  await expectAccessible(page);
  await page.getByRole("button", { name: /^(report at|\d+ reports from)/ }).first().click();
  await expect(page.locator(".picked")).toContainText("usual_hosts");
  await page.getByRole("button", { name: "Compare with the saved" }).click();
  await expect(page.getByRole("status").filter({ hasText: "as before" })).toHaveText(/Against the saved file:\s*\d+ new\s*\d+ not any more\s*\d+ as before/);
  await expectAccessible(page);
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect(page.getByText("Saved; the watch runs with it")).toBeVisible();
  await page.reload();
  await expect(file).toHaveValue(/fanout_min = 50/);
  await expect(page.getByText("not saved", { exact: true })).toHaveCount(0);
});

test("what somebody else has changed is not overwritten unseen", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "changes files of the fixture");
  for (const [path, hash, label, theirs] of [
    ["dashboards/shared", "#/dashboards/shared?edit=yes", "file of the dashboard", 'title = "Of somebody else"\n'],
    ["watches/shared", "#/watches/shared", "file of the watch", 'title = "Of somebody else"\nquery = "SELECT count(*) AS flows FROM flows"\n'],
  ] as const) {
    const put = async (text: string) => expect((await page.request.put(`${weir.address}api/v1/${path}`, { data: text, headers: { "Content-Type": "text/plain" } })).ok()).toBe(true);
    const now = async () => ((await (await page.request.get(`${weir.address}api/v1/${path}`)).json()) as { text: string }).text;
    await put(theirs.replace("Of somebody else", "First"));
    await weir.open(hash);
    const file = page.getByLabel(label);
    await expect(file).toHaveValue(/First/);
    const mine = theirs.replace("Of somebody else", "Mine");
    await file.fill(mine);
    await put(theirs);
    // Also after a reload, which has their file and its tag.
    for (const again of [false, true]) {
      if (again) await page.reload();
      await expect(file).toHaveValue(mine);
      await page.getByRole("button", { name: "Save", exact: true }).click();
      await expect(page.getByRole("alert")).toContainText("somebody else has changed it");
      expect(await now()).toBe(theirs);
    }
    await page.getByText("The file as it is now").click();
    await expect(page.locator("details pre").filter({ hasText: "Of somebody else" })).toBeVisible();
    await expectAccessible(page);
    await page.getByRole("button", { name: "Take theirs" }).click();
    await expect(file).toHaveValue(theirs);
    await expect(page.getByText("not saved", { exact: true })).toHaveCount(0);
    await file.fill(mine);
    await put(theirs.replace("else", "else again"));
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByRole("button", { name: "Overwrite with mine" }).click();
    await expect(page.getByRole("alert")).toHaveCount(0);
    await expect(page.getByText("not saved", { exact: true })).toHaveCount(0);
    expect(await now()).toBe(mine);
    await page.request.delete(`${weir.address}api/v1/${path}`);
  }
});

test("a backtest says which windows had no past to compare with", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs watches of its own");
  await weir.open("#/watches/portscan");
  const file = page.getByLabel("file of the watch");
  await expect(file).toHaveValue(/TUMBLE/);
  const text = await file.inputValue();
  const backtest = page.locator("section[aria-label=backtest]");
  await page.getByLabel("days").selectOption("3");
  // The archive has 21 days: of the last three, one has 20 before it, and none has 30.
  await file.fill(`history_min = "20d"\n${text}`);
  await page.getByRole("button", { name: "Backtest" }).click();
  await expect(backtest.locator("strong", { hasText: "2 880 windows were not asked: the archive has less of the past than history_min." })).toBeVisible();
  await expect(backtest.locator(".report").first()).toBeVisible();
  await file.fill(`history_min = "30d"\n${text}`);
  await page.getByRole("button", { name: "Backtest" }).click();
  await expect(backtest.getByText("It was not asked")).toBeVisible();
  await expect(backtest.locator("strong", { hasText: "4 320 windows were not asked" })).toBeVisible();
  await expect(backtest.getByText("lower its thresholds")).toHaveCount(0);
  await expectAccessible(page);
  await file.fill(text);
  await page.getByRole("button", { name: "Backtest" }).click();
  await expect(backtest.locator(".report").first()).toBeVisible();
  await expect(backtest.getByText("windows were not asked")).toHaveCount(0);
});

test("a watch whose file was wrong is as the others once it is mended", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs watches of its own");
  await weir.open("#/watches/beaconing");
  const file = page.getByLabel("file of the watch");
  await expect(page.getByRole("alert")).toContainText("no column 'colum'");
  await expect(page.getByRole("button", { name: "Pause" })).toHaveCount(0);
  await file.fill('title = "Steady calls"\nquery = "SELECT src_addr FROM flows"\n');
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect(page.getByText("Saved; the watch runs with it")).toBeVisible();
  await expect(page.getByRole("alert")).toHaveCount(0);
  await expect(page.getByRole("heading", { level: 2, name: "beaconing" })).toContainText("Steady calls");
  await expect(page.getByRole("button", { name: "Pause" })).toBeVisible();
  // What is typed next is looked at again.
  await file.fill('query = "SELECT src_addr FORM flows"\n');
  await expect(page.locator(".said mark")).toHaveText("FORM");
});

test("a watch that is paused stays so when its file is saved", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs watches of its own");
  await weir.open("#/watches/mice");
  await expect(page.getByRole("button", { name: "Arm" })).toBeVisible();
  await page.getByLabel("file of the watch").fill('query = "SELECT src_addr FROM flows"\n');
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect(page.getByText("Saved; the watch stays paused, and reports nothing until it is armed.")).toBeVisible();
  await page.getByRole("button", { name: "Arm" }).click();
  await expect(page.getByText("Armed: it runs from its next window on.")).toBeVisible();
  await page.getByRole("button", { name: "Pause" }).click();
  await expect(page.getByText("Paused: it reports nothing until it is armed.")).toBeVisible();
});

test("what somebody else has saved meanwhile is not lost to who pauses the watch and saves", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs watches of its own");
  await weir.open("#/watches/ddos");
  const file = page.getByLabel("file of the watch");
  await expect(file).toHaveValue(/A host is flooded/);
  const before = await file.inputValue();
  const saveTheirs = (data: string) => page.request.put(`${weir.address}api/v1/watches/ddos`, { data, headers: { "Content-Type": "text/plain" } });
  expect((await saveTheirs('title = "Theirs"\nquery = "SELECT dst_addr FROM flows"\n')).status()).toBe(200);
  await page.getByRole("button", { name: "Pause" }).click();
  await expect(page.getByText("Paused: it reports nothing until it is armed.")).toBeVisible();
  await file.fill('title = "Mine"\nquery = "SELECT src_addr FROM flows"\n');
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect(page.getByRole("alert")).toContainText("the watch 'ddos' is another one by now");
  // As it was, for other tests.
  await saveTheirs(before);
  await page.request.post(`${weir.address}api/v1/watches/ddos/resume`);
});

test("a new watch begins with a file that can be tested", async ({ page, weir }) => {
  await weir.open("#/watches");
  await page.getByLabel("name of a new watch").fill("talkers");
  await page.getByRole("button", { name: "New" }).click();
  await expect(page).toHaveURL(/#\/watches\/talkers$/);
  await expect(page.getByLabel("file of the watch")).toHaveValue(/TUMBLE\(flows, received/);
});
