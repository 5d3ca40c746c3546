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
  removed: readonly Part[];
  /** What differs within the new lines. */
  added: readonly Part[];
  /** What of the new lines the model wrote itself; undefined: nobody knows. */
  written: readonly Part[] | undefined;
}

/** What stands out in new lines: what differs from the old ones, or what wasn't copied from anywhere. */
export type View = 'differences' | 'provenance';

export interface Piece {
  kind: 'plain' | 'added' | 'copied' | 'written';
  text: string;
}

export interface Cell {
  line: number;
  /** Blank columns between the end of the line and the text. */
  gap: number;
  /** The text; at most MAX_PIECES. */
  pieces: Piece[];
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

/** What is left of a line with more pieces is one. */
export const MAX_PIECES = 12;
const GAP = 3;
const MAX_WIDTH = 160;

export function draw(changes: readonly Change[], lines: Lines, view: View = 'differences'): Drawing {
  const drawing: Drawing = { removed: [], parts: [], inserted: [], cells: [] };
  changes.forEach((change, index) => {
    const first = Math.min(change.first, lines.count - 1);
    if (change.stop > change.first) {
      drawing.removed.push({ first, stop: Math.min(change.stop, lines.count) });
    } else {
      drawing.inserted.push(first);
    }
    drawing.parts.push(...change.removed.map(({ row, start, end }) => ({ line: first + row, start, end })));
    const next = Math.min(changes[index + 1]?.first ?? lines.count, lines.count);
    drawing.cells.push(...panel(first, Math.max(next, first + 1), newLines(change, lines.tabSize, view), lines));
  });
  return drawing;
}

/** The new lines beside rows first up to end. */
function panel(first: number, end: number, texts: Piece[][], lines: Lines): Cell[] {
  const n = Math.min(texts.length, end - first);
  const nHidden = texts.length - n;
  const rows = Array.from({ length: n }, (_, row) => first + row);
  const widths = rows.map((line) => expanded(lines.at(line), lines.tabSize).length);
  const column = Math.max(0, ...widths) + GAP;
  return rows.map((line, row) => {
    const more: Piece[] = nHidden > 0 && row === n - 1 ? [{ kind: 'plain', text: `  ⋯ and ${nHidden} more` }] : [];
    return { line, gap: column - (widths[row] ?? 0), pieces: [...(texts[row] ?? []), ...more] };
  });
}

function newLines({ newText, added, written }: Change, tabSize: number, view: View): Piece[][] {
  const marks = view === 'differences' ? added : written;
  const kinds = view === 'differences' ? (['plain', 'added'] as const) : (['copied', 'written'] as const);
  return linesOf(newText).map((text, row) => {
    if (!marks) {
      return piecesOf(text, [], ['plain', 'plain'], tabSize);
    }
    const here = marks.filter((mark) => mark.row === row).sort((a, b) => a.start - b.start);
    return piecesOf(text, here, kinds, tabSize);
  });
}

function linesOf(text: string): string[] {
  const lines = text.split(/\r\n|\r|\n/);
  if (lines.at(-1) === '') {
    lines.pop();
  }
  return lines;
}

/** A line cut at its marks, with tabs as the blanks that they are shown as. kinds: of what isn't marked, and of what is. */
function piecesOf(
  text: string,
  marks: readonly Part[],
  kinds: readonly [Piece['kind'], Piece['kind']],
  tabSize: number,
): Piece[] {
  const edges = marks.flatMap(({ start, end }) => [start, end]).slice(0, MAX_PIECES - 2);
  let begin = 0;
  let width = 0;
  return [...edges, text.length].flatMap((edge, index) => {
    const shown = expanded(text.slice(begin, edge), tabSize, width).slice(0, MAX_WIDTH - width);
    begin = edge;
    width += shown.length;
    return shown ? [{ kind: kinds[index % 2 === 0 ? 0 : 1], text: shown }] : [];
  });
}

/** Tabs as the blanks that they are shown as. column: where the text begins. */
export function expanded(text: string, tabSize: number, column = 0): string {
  let shown = '';
  for (const character of text) {
    shown += character === '\t' ? ' '.repeat(tabSize - ((column + shown.length) % tabSize)) : character;
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
