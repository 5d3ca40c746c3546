/** Whole lines of a document, and where they stand after edits. Knows no editor. */

import type { Range } from './protocol';

export interface Span {
  first: number;
  /** The line after the last. */
  stop: number;
}

export interface Edit {
  range: Range;
  text: string;
}

/** The edits that made a version of the document. */
export interface Version {
  version: number;
  edits: readonly Edit[];
}

/** A range of whole lines ends at character 0, or at the very end of the document. */
export function spanOf(range: Range): Span {
  return { first: range.start.line, stop: range.end.line + (range.end.character > 0 ? 1 : 0) };
}

/** Where a span stands after an edit: lines above move it, lines inside stretch it. */
export function moved(span: Span, edit: Edit): Span {
  const { start, end } = edit.range;
  const by = edit.text.split(/\r\n|\r|\n/).length - 1 - (end.line - start.line);
  const endsAbove = end.line < span.first || (end.line === span.first && end.character === 0);
  if (endsAbove) {
    return { first: span.first + by, stop: span.stop + by };
  }
  return start.line < span.stop ? { first: span.first, stop: Math.max(span.first, span.stop + by) } : span;
}

/** A span of an older version, in the newest one. */
export function movedSince(span: Span, version: number, history: readonly Version[]): Span {
  const edits = history.filter((later) => later.version > version).flatMap((later) => later.edits);
  return edits.reduce(moved, span);
}
