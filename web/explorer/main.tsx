import "./explorer.css";
import { render } from "preact";

const main = document.getElementById("content");
if (main) render(<h1>Who may act for a wallet?</h1>, main);
