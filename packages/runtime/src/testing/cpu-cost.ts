/**
 * What the work costs this thread, CPU ms: the least of five tries, as a loaded machine makes each of them longer, and
 * none shorter. The kernel counts in steps of 4 ms.
 */
export function cpuMsOf(work: () => void): number {
  const costs = Array.from({ length: 5 }, () => {
    const start = process.threadCpuUsage();
    work();
    const { user, system } = process.threadCpuUsage(start);
    return (user + system) / 1000;
  });
  return Math.min(...costs);
}
