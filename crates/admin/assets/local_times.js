// Shows times in the time of the browser. Without it they are in UTC.

const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** What the server has written as a time, and not as an age. */
const IN_UTC = / UTC$/;

/** The time in UTC stays as what is shown for a pointer that rests on it. */
export function showLocalTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!IN_UTC.test(time.textContent) || Number.isNaN(at.getTime())) continue;
    time.title = time.textContent;
    time.textContent = format.format(at);
  }
}
