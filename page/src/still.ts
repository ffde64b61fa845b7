// The picture alone, in a file of its own: its data are in the page.
import "./still.css";
import { handle, mount } from "./graph/mount";
import { type GraphData } from "./graph/model";

const told = document.getElementById("data")?.textContent ?? "null";
mount(JSON.parse(told) as GraphData);
Object.assign(window, { snapshotGraph: handle });
