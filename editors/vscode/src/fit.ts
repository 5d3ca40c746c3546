/** What `stet models fit` and `stet models fetch` say, read and put into words. Knows no editor. */

/** A preset, and what it takes on this machine. Only the first four are known without `stet models fit`. */
export interface Fit {
  preset: string;
  model: string;
  small_lm: string | null;
  fetched: boolean;
  device?: string;
  /** What stet.dtype must be for it to take what it says. */
  with_dtype?: string;
  fits?: boolean;
  download_bytes?: number;
  why?: string;
  isRecommended: boolean;
}

/** undefined for what is no such report. */
export function parseFits(json: string): Fit[] | undefined {
  try {
    const { presets, recommended } = JSON.parse(json) as {
      presets: (Fit & { target?: string })[];
      recommended?: string;
    };
    return presets.map(({ target, ...fit }) => ({
      ...fit,
      model: fit.model ?? target,
      isRecommended: fit.preset === recommended,
    }));
  } catch {
    return undefined;
  }
}

/** A line of the menu. */
export function itemOf(fit: Fit): { label: string; description: string; detail: string } {
  const size = fit.download_bytes ? `${(fit.download_bytes / 1e9).toFixed(1)} GB to fetch` : 'to be fetched';
  const models = fit.small_lm ? `${fit.model} with ${fit.small_lm}` : fit.model;
  return {
    label: `${fit.fits === false ? '$(warning) ' : ''}${fit.preset}${fit.isRecommended ? ' $(star-full)' : ''}`,
    description: [fit.isRecommended && 'recommended', fit.why, fit.fetched ? 'fetched' : size]
      .filter(Boolean)
      .join('; '),
    detail: fit.device ? `${models}, on ${fit.device}` : models,
  };
}

/** What the setting stet.dtype must become for this preset; undefined: it stays as it is, as what the user has set does. */
export function dtypeFor(fit: Fit | undefined, now: string): string | undefined {
  return now === 'auto' && fit?.with_dtype && fit.with_dtype !== 'auto' ? fit.with_dtype : undefined;
}

/** Whether `stet models fetch` has only stopped because nobody was there to be asked. */
export function isPlanned(stderr: string): boolean {
  return stderr.includes('--yes');
}

/** What would be fetched, how much, from where and to where: the program's own words. */
export function planOf(stderr: string): string {
  const lines = stderr.trim().split('\n');
  return lines.filter((line) => !line.startsWith('stet: ')).join('\n');
}
