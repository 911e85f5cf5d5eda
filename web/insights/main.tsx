import "./insights.css";
import { render } from "preact";
import { Insights } from "./insights.tsx";

const main = document.getElementById("content");
if (main) render(<Insights />, main);
