import "./explorer.css";
import { render } from "preact";
import { App } from "./app.tsx";

const main = document.getElementById("content");
if (main) render(<App />, main);
