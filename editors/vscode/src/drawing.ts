/**
 * How a rewrite is drawn over the old text, as values. Knows no editor.
 *
 * An editor's decorations hold no line of their own, only text behind a line that is there. So new lines stand in a panel to the
 * right of the old ones, row by row; what the panel has no rows for is counted in its last row.
 */

import type { Span } from './spans';

/** Characters of the row-th line of a change. */
export interface Part {
  row: number;
  start: number;
  end: number;
}

/** A change: old lines, and the text that replaces them. */
export interface Change extends Span {
  newText: string;
  /** What differs within the old lines. */
  parts: readonly Part[];
}

export interface Cell {
  line: number;
  /** Blank columns between the end of the line and the text. */
  gap: number;
  text: string;
}

export interface Drawing {
  /** Old lines that would go. */
  removed: Span[];
  /** What differs within them. */
  parts: { line: number; start: number; end: number }[];
  /** Lines before which new ones would come, with no old line to go. */
  inserted: number[];
  cells: Cell[];
}

/** The text as editors show it. */
export interface Lines {
  count: number;
  tabSize: number;
  at(line: number): string;
}

const GAP = 3;
const MAX_WIDTH = 160;

export function draw(changes: readonly Change[], lines: Lines): Drawing {
  const drawing: Drawing = { removed: [], parts: [], inserted: [], cells: [] };
  changes.forEach((change, index) => {
    const first = Math.min(change.first, lines.count - 1);
    if (change.stop > change.first) {
      drawing.removed.push({ first, stop: Math.min(change.stop, lines.count) });
    } else {
      drawing.inserted.push(first);
    }
    drawing.parts.push(...change.parts.map(({ row, start, end }) => ({ line: first + row, start, end })));
    const next = Math.min(changes[index + 1]?.first ?? lines.count, lines.count);
    drawing.cells.push(...panel(first, Math.max(next, first + 1), newLines(change.newText), lines));
  });
  return drawing;
}

/** The new lines beside rows first up to end. */
function panel(first: number, end: number, texts: string[], lines: Lines): Cell[] {
  const n = Math.min(texts.length, end - first);
  const nHidden = texts.length - n;
  const rows = Array.from({ length: n }, (_, row) => first + row);
  const widths = rows.map((line) => expanded(lines.at(line), lines.tabSize).length);
  const column = Math.max(0, ...widths) + GAP;
  return rows.map((line, row) => {
    const text = expanded(texts[row] ?? '', lines.tabSize).slice(0, MAX_WIDTH);
    const more = nHidden > 0 && row === n - 1 ? `  ⋯ and ${nHidden} more` : '';
    return { line, gap: column - (widths[row] ?? 0), text: text + more };
  });
}

function newLines(text: string): string[] {
  const lines = text.split(/\r\n|\r|\n/);
  if (lines.at(-1) === '') {
    lines.pop();
  }
  return lines;
}

/** Tabs as the blanks that they are shown as. */
export function expanded(text: string, tabSize: number): string {
  let shown = '';
  for (const character of text) {
    shown += character === '\t' ? ' '.repeat(tabSize - (shown.length % tabSize)) : character;
  }
  return shown;
}

/** The document's text with all changes made. The text of lines that stay is not touched. */
export function withChanges(text: string, changes: readonly Change[]): string {
  const lines = text.match(/[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$/g) ?? [];
  for (const change of [...changes].reverse()) {
    lines.splice(change.first, change.stop - change.first, change.newText);
  }
  return lines.join('');
}
