import "./insights.css";
import { render } from "preact";
import { InsightsPage } from "./insights-page.tsx";

const main = document.getElementById("content");
if (main) render(<InsightsPage />, main);
