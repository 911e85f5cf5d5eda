import "./checks.css";
import { render } from "preact";
import { ChecksPage } from "./checks-page.tsx";

const main = document.getElementById("content");
if (main) render(<ChecksPage />, main);
