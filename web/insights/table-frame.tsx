import type { ComponentChildren } from "preact";

/** Around a table that may be wider or longer than there is room: what scrolls has to be reached by keys, and have a name. */
export const TableFrame = ({ label, children }: { label: string; children: ComponentChildren }) => (
  <section class="table-frame" aria-label={label} tabindex={0}>
    {children}
  </section>
);
