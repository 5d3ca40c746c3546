import assert from 'node:assert/strict';
import test from 'node:test';
import { type Change, draw, type Drawing, expanded, MAX_PIECES, type View, withChanges } from '../src/drawing';

const TEXT = ['def area(x):', '    y = x * x', '    return y', '', 'end'];
const LINES = { count: TEXT.length, tabSize: 4, at: (line: number) => TEXT[line] ?? '' };

function change(first: number, stop: number, newText: string): Change {
  return { first, stop, newText, removed: [], added: [], written: undefined };
}

const cellsOf = ({ cells }: Drawing): object[] =>
  cells.map(({ line, gap, pieces }) => ({ line, gap, text: pieces.map(({ text }) => text).join('') }));

test('new lines stand right of the old ones, all in one column', () => {
  const drawing = draw([change(1, 3, '    r = x\n    return r\n')], LINES);
  assert.deepEqual(drawing.removed, [{ first: 1, stop: 3 }]);
  assert.deepEqual(cellsOf(drawing), [
    { line: 1, gap: 3, text: '    r = x' },
    { line: 2, gap: 4, text: '    return r' },
  ]);
});

test('lines that come with no old line stand beside those that follow', () => {
  const drawing = draw([change(1, 1, 'new\n')], LINES);
  assert.deepEqual([drawing.inserted, drawing.removed], [[1], []]);
  assert.deepEqual(cellsOf(drawing), [{ line: 1, gap: 3, text: 'new' }]);
});

test('a panel ends where the next change begins, and counts what it has no row for', () => {
  const drawing = draw([change(0, 1, 'a\nb\nc\n'), change(2, 3, 'd\n')], LINES);
  assert.deepEqual(cellsOf(drawing), [
    { line: 0, gap: 4, text: 'a' },
    { line: 1, gap: 3, text: 'b  ⋯ and 1 more' },
    { line: 2, gap: 3, text: 'd' },
  ]);
});

test('what comes after the last line stands beside it', () => {
  const drawing = draw([change(5, 5, 'a\nb\n')], LINES);
  assert.deepEqual(drawing.inserted, [4]);
  assert.deepEqual(cellsOf(drawing), [{ line: 4, gap: 3, text: 'a  ⋯ and 1 more' }]);
});

test('lines that only go have no panel', () => {
  assert.deepEqual(draw([change(3, 4, '')], LINES).cells, []);
});

test('what differs within a line moves with its change', () => {
  const { parts } = draw([{ ...change(1, 3, 'x\n'), removed: [{ row: 1, start: 4, end: 6 }] }], LINES);
  assert.deepEqual(parts, [{ line: 2, start: 4, end: 6 }]);
});

function pieces(newText: string, marks: Partial<Change>, view?: View): string[] {
  const { cells } = draw([{ ...change(1, 2, newText), ...marks }], LINES, view);
  return cells.flatMap((cell) => cell.pieces.map(({ kind, text }) => `${kind}:${text}`));
}

test('what differs within the new lines stands out, in the order of the line', () => {
  const added = [
    { row: 0, start: 4, end: 5 },
    { row: 0, start: 1, end: 3 },
  ];
  assert.deepEqual(pieces('abcdef\n', { added }), ['plain:a', 'added:bc', 'plain:d', 'added:e', 'plain:f']);
  assert.deepEqual(pieces('abc\n', { added: [{ row: 0, start: 0, end: 3 }] }), ['added:abc']);
});

test('what the model wrote itself stands out when that is asked for', () => {
  const written = [{ row: 0, start: 2, end: 4 }];
  assert.deepEqual(pieces('abcd\n', { written }, 'provenance'), ['copied:ab', 'written:cd']);
  assert.deepEqual(pieces('abcd\n', { written: undefined }, 'provenance'), ['plain:abcd']);
});

test('tabs between what stands out are as wide as they are shown', () => {
  assert.deepEqual(pieces('\ta\tb\n', { added: [{ row: 0, start: 1, end: 3 }] }), [
    'plain:    ',
    'added:a   ',
    'plain:b',
  ]);
});

test('a line has no more pieces than the editor has decorations for', () => {
  const added = Array.from({ length: 20 }, (_, n) => ({ row: 0, start: 2 * n + 1, end: 2 * n + 2 }));
  const line = 'ab'.repeat(20);
  const { cells } = draw([{ ...change(4, 4, `${line}\n${line}\n`), added }], LINES);
  const shown = cells[0]?.pieces ?? [];
  assert.equal(shown.length, MAX_PIECES);
  assert.equal(shown.map(({ text }) => text).join(''), `${line}  ⋯ and 1 more`);
});

test('tabs reach to the next tab stop', () => {
  assert.equal(expanded('\tab\tc', 4), '    ab  c');
});

test('the proposal keeps every byte of the lines that stay', () => {
  const text = 'a\r\nb\nc\r\n\tlast';
  assert.equal(withChanges(text, []), text);
  assert.equal(withChanges(text, [change(1, 2, 'B\n'), change(4, 4, '')]), 'a\r\nB\nc\r\n\tlast');
  assert.equal(withChanges(text, [change(0, 0, 'new\r\n'), change(3, 4, 'LAST')]), 'new\r\na\r\nb\nc\r\nLAST');
});
