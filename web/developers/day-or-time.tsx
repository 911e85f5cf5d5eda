/** The day, or the time if it is today. */
export const DayOrTime = ({ at }: { at: string }) => {
  const date = new Date(at);
  const isToday = date.toDateString() === new Date().toDateString();
  const text = isToday
    ? `today, ${date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}`
    : date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
  return (
    <time dateTime={at} title={date.toLocaleString("en-GB")}>
      {text}
    </time>
  );
};
