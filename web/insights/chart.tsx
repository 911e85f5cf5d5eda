import {
  BarController,
  BarElement,
  CategoryScale,
  Chart,
  type ChartConfiguration,
  LinearScale,
  Tooltip,
} from "chart.js";
import { useEffect, useRef, useState } from "preact/hooks";

Chart.register(BarController, BarElement, CategoryScale, LinearScale, Tooltip);

export type Colors = { text: string; quiet: string; line: string; raised: string; series: string[] };

export const SERIES = 6;

/** What the style says, worked out: a canvas knows no variables, and a variable not whether it is dark. */
const readColors = (element: HTMLElement): Colors => {
  const probe = document.createElement("span");
  element.append(probe);
  const read = (name: string) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colors = {
    text: read("text"),
    quiet: read("quiet"),
    line: read("line"),
    raised: read("raised"),
    series: Array.from({ length: SERIES }, (_, index) => read(`series-${index + 1}`)),
  };
  probe.remove();
  return colors;
};

/** Goes up whenever the theme changes. */
const useTheme = (): number => {
  const [times, setTimes] = useState(0);
  useEffect(() => {
    const change = () => setTimes((times) => times + 1);
    const prefersDark = matchMedia("(prefers-color-scheme: dark)");
    prefersDark.addEventListener("change", change);
    const observer = new MutationObserver(change);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      prefersDark.removeEventListener("change", change);
      observer.disconnect();
    };
  }, []);
  return times;
};

type BarChartProps = {
  /** What it shows, for those who do not see it. */
  label: string;
  /** In rem. */
  height: number;
  draw: (colors: Colors, font: string) => ChartConfiguration<"bar">;
};

/** A chart of bars, drawn anew when what it draws changes, or the theme does. */
export const BarChart = ({ label, height, draw }: BarChartProps) => {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  useEffect(() => {
    if (!frame.current || !canvas.current) return;
    const font = getComputedStyle(document.body).fontFamily;
    const chart = new Chart(canvas.current, draw(readColors(frame.current), font));
    return () => chart.destroy();
  }, [draw, theme]);
  return (
    <div class="chart" ref={frame} style={{ height: `${height}rem` }}>
      <canvas ref={canvas} role="img" aria-label={label} />
    </div>
  );
};
