import type { ComponentChildren } from "preact";

/** Scrolls a table that is too large. A scrolling region needs a name and keyboard focus to be accessible. */
export const TableFrame = ({ label, children }: { label: string; children: ComponentChildren }) => (
  <section class="table-frame" aria-label={label} tabindex={0}>
    {children}
  </section>
);
