import { mount } from "svelte";
import "./app.css";
import App from "./App.svelte";
import { readSetting } from "./drafts.ts";
import { chooseZone } from "./times.ts";

// Before anything shows a time.
if (readSetting("zone") === "UTC") chooseZone("UTC");
const target = document.getElementById("app");
if (target) mount(App, { target });
