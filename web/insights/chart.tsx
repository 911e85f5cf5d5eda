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

/** Number of series colours in insights.css. */
export const SERIES = 6;

/** Resolves the colours of the style sheet. A canvas cannot use CSS variables, and they depend on the theme. */
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

/** A number that increases when the theme changes. */
const useThemeVersion = (): number => {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const increase = () => setVersion((version) => version + 1);
    const prefersDark = matchMedia("(prefers-color-scheme: dark)");
    prefersDark.addEventListener("change", increase);
    const observer = new MutationObserver(increase);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      prefersDark.removeEventListener("change", increase);
      observer.disconnect();
    };
  }, []);
  return version;
};

type BarChartProps = {
  /** Describes the chart for screen readers. */
  label: string;
  /** In rem. */
  height: number;
  configure: (colors: Colors, font: string) => ChartConfiguration<"bar">;
};

/** A bar chart, redrawn when its configuration or the theme changes. */
export const BarChart = ({ label, height, configure }: BarChartProps) => {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useThemeVersion();
  useEffect(() => {
    if (!frame.current || !canvas.current) return;
    const font = getComputedStyle(document.body).fontFamily;
    const chart = new Chart(canvas.current, configure(readColors(frame.current), font));
    return () => chart.destroy();
  }, [configure, theme]);
  return (
    <div class="chart" ref={frame} style={{ height: `${height}rem` }}>
      <canvas ref={canvas} role="img" aria-label={label} />
    </div>
  );
};
