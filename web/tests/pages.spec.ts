// Every page: it shows what it is for, axe finds nothing, it fits, in both themes and at both widths.
import { expect, expectAccessible, expectNoSidewaysScroll, REAL, test } from "./weir.ts";

const PAGES: { hash: string; heading: string; shows: string }[] = [
  { hash: "#/now", heading: "Now", shows: "section[aria-labelledby=last5] canvas" },
  { hash: "#/explore?by=src_addr&previous=yes", heading: "Explore", shows: "section[aria-label=picture] canvas" },
  { hash: "#/explore?by=src_addr,dst_port,dst_addr&view=sankey", heading: "Explore", shows: "section[aria-label=picture] svg rect" },
  { hash: "#/explore?by=dst_port&view=heatmap", heading: "Explore", shows: "section[aria-label=picture] canvas" },
  // A real process keeps no countries of generated flows, and says so.
  { hash: "#/explore?by=src_country&view=map", heading: "Explore", shows: "section[aria-label=picture] svg path, section[aria-label=picture] .empty" },
  { hash: "#/flows", heading: "Flows", shows: "[role=table] .line" },
  { hash: "#/sql?q=SELECT+src_addr,+sum(bytes)+AS+bytes+FROM+flows+GROUP+BY+src_addr+ORDER+BY+bytes+DESC+LIMIT+5", heading: "SQL", shows: "section[aria-label=answer] tbody tr" },
  { hash: "#/exporters", heading: "Exporters", shows: "section[aria-label=exporters] tbody tr" },
  { hash: "#/watches", heading: "Watches", shows: "section[aria-label=watches] tbody tr, section[aria-label=watches] .empty" },
  { hash: "#/reports", heading: "Reports", shows: ".report, .empty" },
  { hash: "#/series", heading: "Series", shows: "section[aria-label=picture], .empty" },
  { hash: "#/archive", heading: "Archive", shows: "section[aria-labelledby=days] tbody tr" },
  { hash: "#/dashboards", heading: "Dashboards", shows: "section[aria-label=dashboards] .item, .empty" },
  { hash: "#/host/192.0.2.10", heading: "host 192.0.2.10", shows: "section[aria-labelledby=traffic]" },
  { hash: "#/host/192.0.2.0/24", heading: "network 192.0.2.0/24", shows: "section[aria-labelledby=traffic]" },
  { hash: "#/as/64498", heading: "AS 64498", shows: "section[aria-labelledby=traffic]" },
  { hash: "#/service/tcp/443?via=host/192.0.2.10", heading: "service tcp/443", shows: "section[aria-labelledby=traffic]" },
  { hash: "#/interface/10.0.0.1/3", heading: "interface 10.0.0.1/3", shows: "section[aria-labelledby=traffic]" },
  { hash: "#/exporter/10.0.0.2", heading: "exporter 10.0.0.2", shows: "section[aria-labelledby=books]" },
];

for (const scheme of ["light", "dark"] as const) {
  for (const width of [1280, 390]) {
    for (const { hash, heading, shows } of PAGES) {
      test(`${hash.split("+")[0]} in ${scheme} at ${width}`, async ({ page, weir }) => {
        await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
        await page.setViewportSize({ width, height: width < 500 ? 844 : 860 });
        await weir.open(hash);
        await expect(page.getByRole("heading", { level: 1 })).toHaveText(heading);
        await expect(page.locator(shows).first()).toBeVisible();
        await expect(page.getByRole("alert")).toHaveCount(0);
        await expectNoSidewaysScroll(page);
        await expectAccessible(page);
      });
    }
  }
}

test("a page that is not there says where the others are", async ({ page, weir }) => {
  await weir.open("#/nothing");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("No such page");
  await expectAccessible(page);
});

test("the theme is kept, and there before the first paint", async ({ page, weir }) => {
  await page.emulateMedia({ colorScheme: "light" });
  await weir.open("#/now");
  await page.keyboard.press("d");
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
  await page.reload();
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
  await expectAccessible(page);
});

test("the keys lead everywhere", async ({ page, weir }) => {
  await weir.open("#/now");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Now");
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog", { name: "Keys" })).toBeVisible();
  await expectAccessible(page);
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  for (const [key, heading] of [["e", "Explore"], ["f", "Flows"], ["s", "SQL"], ["x", "Exporters"], ["w", "Watches"], ["r", "Reports"], ["t", "Series"], ["d", "Dashboards"], ["a", "Archive"]] as const) {
    await page.keyboard.press("g");
    await page.keyboard.press(key);
    await expect(page.getByRole("heading", { level: 1 })).toHaveText(heading);
  }
  await page.keyboard.press("g");
  await page.keyboard.press("e");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Explore");
  await page.keyboard.press("/");
  await expect(page.getByLabel("filter")).toBeFocused();
  // Letters are text now.
  await page.keyboard.type("gn");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Explore");
});

test("an address is looked up from anywhere", async ({ page, weir }) => {
  await weir.open("#/archive");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Archive");
  await page.keyboard.press("i");
  await page.keyboard.type("192.0.2.x");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("search").getByRole("alert")).toContainText("not an address");
  for (const [typed, heading] of [["192.0.2.0/24", "network 192.0.2.0/24"], ["AS64498", "AS 64498"], ["tcp/443", "service tcp/443"]] as const) {
    await page.getByLabel("look up an address").fill(typed);
    await page.keyboard.press("Enter");
    await expect(page.getByRole("heading", { level: 1 })).toHaveText(heading);
  }
});

test("the menu of a phone opens and closes", async ({ page, weir }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await weir.open("#/now");
  await page.getByRole("button", { name: "menu" }).click();
  await expectAccessible(page);
  await page.getByRole("link", { name: "Exporters", exact: true }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Exporters");
  await expect(page.getByRole("link", { name: "Watches", exact: true })).toBeHidden();
});

test("the server may go away and come back", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs a server that can be stopped");
  await weir.open("#/now");
  await expect(page.getByText(/^live, /)).toBeVisible();
  await page.route("**/api/v1/**", (route) => route.abort());
  await page.getByRole("button", { name: "Again", exact: true }).click();
  await expect(page.getByRole("alert").first()).toContainText("the server cannot be reached");
  await expect(page.getByRole("alert").first()).toContainText("hint:");
  await page.unroute("**/api/v1/**");
  await page.getByRole("button", { name: "Try again" }).first().click();
  await expect(page.getByRole("alert")).toHaveCount(0);
});

test("who must sign in does so, and comes to the question of the link", async ({ page, weir }) => {
  test.skip(REAL !== undefined, "needs users");
  let isSignedIn = false;
  await page.route("**/api/v1/info", async (route) => {
    const answer = (await (await route.fetch()).json()) as object;
    await route.fulfill({ json: { ...answer, has_users: true, ...(isSignedIn ? { user: { name: "ann", role: "analyst" } } : { user: null, archive: null, collecting: [] }) } });
  });
  await page.route("**/api/v1/session", async (route) => {
    isSignedIn = (route.request().postDataJSON() as { password: string }).password === "correct horse";
    const wrong = { type: "urn:weir:unauthenticated", title: "it is not known who asks", status: 401, detail: "the name or the password is not right" };
    await route.fulfill(isSignedIn ? { json: { name: "ann", role: "analyst" } } : { status: 401, contentType: "application/problem+json", json: wrong });
  });
  await weir.open("#/flows?filter=proto+tcp");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign in");
  await expectAccessible(page);
  await page.getByLabel("name", { exact: true }).fill("ann");
  await page.getByLabel("password").fill("wrong");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toContainText("the name or the password is not right");
  await page.getByLabel("password").fill("correct horse");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Flows");
  await expect(page.getByLabel("filter", { exact: true })).toHaveValue("proto tcp");
  await expect(page.getByRole("button", { name: "Sign out" })).toBeVisible();
  // Without the session nothing was asked but who asks.
  expect(weir.requests.filter((each) => each.startsWith("GET flows")).length).toBeGreaterThan(0);
});
